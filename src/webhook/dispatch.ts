import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {afterAttempt, putOff} from '../mail/webhook.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {createHeldClaims, type HeldClaimsOptions, storeRetryMs} from '../store/held-claims.ts';
import {type ClaimedDelivery, claimName, type EndpointWork} from '../store/webhook-queue.ts';
import {createEndpointQueues, type EndpointQueuesOptions, type Moment, type Permit} from './endpoint-queues.ts';
import type {PostEnd} from './post.ts';
import {type Attempted, endsOf, type Turn, type Turned} from './turn.ts';

type DispatcherOptions = EndpointQueuesOptions &
	HeldClaimsOptions<unknown> & {
		readonly writer: Writer;
		readonly turnWrite: GroupWrite<Turn, Turned>;
		/** Endpoints with something to do, as the store says. */
		readonly readWork: () => Promise<readonly EndpointWork[]>;
		/**
		 * Makes one attempt; rejects only by a fault of ours, then the attempt has failed. Null: it could not begin, for any
		 * endpoint; it does not count and is made later.
		 */
		readonly post: (delivery: ClaimedDelivery) => Promise<PostEnd | null>;
		/** Wait after the end of a failed attempt, milliseconds. */
		readonly backoffMs: number;
		readonly clock: Clock;
		readonly observer: {
			/** After the end of an attempt is on stable storage, or that it could not begin. */
			readonly posted: (attempted: Attempted) => void;
			readonly webhookFault: (error: unknown) => void;
		};
	};

/** How exactly waiting deliveries come due, milliseconds. */
const tickMs = 100;
const ourFault: PostEnd = {
	status: null,
	error: 'a fault of this server',
	detail: null,
	answer: null,
	address: null,
	tls: null,
	ms: 0,
};

/**
 * Posts what is due. One transaction after the other stores the attempts that have ended and claims what may start in
 * their place; in memory is what is being tried and, for endpoints that answer at once, the next few. If an end cannot be
 * stored it is kept, and nothing is claimed: both are one transaction.
 */
export function createDispatcher(options: DispatcherOptions) {
	const {writer, clock} = options;
	const endpoints = createEndpointQueues<ClaimedDelivery>(options);
	/** Ended, and not stored yet. */
	let ended: Attempted[] = [];
	/** What is being tried, or waits for it. */
	const held = createHeldClaims(options);
	const idle: Array<() => void> = [];
	let state: 'idle' | 'running' | 'stopping' = 'idle';
	let timer: NodeJS.Timeout | undefined;
	let turning = false;

	const moment = () => ({now: clock.now(), monotonic: clock.monotonic()});

	function plan(): void {
		if (!turning && state !== 'idle') {
			turning = true;
			// What ends or comes due in the same turn of the event loop shares the transaction.
			setImmediate(() => void turns());
		}
	}

	async function turns(): Promise<void> {
		for (;;) {
			for (const delivery of endpoints.takeReturned()) {
				held.end(claimName(delivery));
				held.doubt();
			}
			if (held.isDoubtful && (state === 'running' || ended.length > 0)) {
				await held.releaseUnknown();
				continue;
			}
			const permits = state === 'running' ? endpoints.permits() : [];
			const attempted = ended;
			ended = [];
			if (permits.length === 0 && attempted.length === 0) {
				break;
			}
			if (!(await turn(permits, attempted))) {
				await new Promise(resolve => setTimeout(resolve, storeRetryMs));
			}
		}
		turning = false;
		if (state === 'stopping' && endpoints.inFlight === 0) {
			for (const resolve of idle.splice(0)) {
				resolve();
			}
		}
	}

	/** False: the store could not be written, and everything is as before. */
	async function turn(permits: readonly Permit<ClaimedDelivery>[], attempted: readonly Attempted[]): Promise<boolean> {
		const now = clock.now();
		let turned: Turned;
		try {
			turned = await writer.submit(options.turnWrite, {
				...endsOf(attempted),
				permits: permits.map(({endpoint, limit}) => ({endpointId: endpoint.endpointId, limit})),
				now: storeTime(now),
			});
		} catch (error) {
			options.onStoreError(error);
			held.doubt();
			ended = [...attempted, ...ended];
			const when = moment();
			for (const permit of permits) {
				start(endpoints.claimed(permit, [], now, when), when);
			}
			return false;
		}
		for (const one of attempted) {
			conclude(one, turned.moved.has(one.delivery.id));
		}
		begin(permits, turned);
		return true;
	}

	function conclude(attempted: Attempted, moved: boolean): void {
		const {delivery, after} = attempted;
		held.end(claimName(delivery));
		if (moved && after.nextAttemptAt !== null) {
			endpoints.due(delivery.endpointId, after.nextAttemptAt, clock.now());
		}
		options.observer.posted(attempted);
	}

	function begin(permits: readonly Permit<ClaimedDelivery>[], {deliveries, nextDue}: Turned): void {
		const fresh = new Map<string, ClaimedDelivery[]>();
		for (const delivery of deliveries) {
			if (held.take(claimName(delivery))) {
				fresh.set(delivery.endpointId, [...(fresh.get(delivery.endpointId) ?? []), delivery]);
			}
		}
		const when = moment();
		for (const permit of permits) {
			const {endpointId} = permit.endpoint;
			const claimed = fresh.get(endpointId) ?? [];
			const due = nextDue.get(endpointId);
			start(endpoints.claimed(permit, claimed, due === undefined ? null : Date.parse(due), when), when);
		}
	}

	function start(deliveries: readonly ClaimedDelivery[], when: Moment): void {
		for (const delivery of deliveries) {
			void attempt(delivery, when);
		}
	}

	async function attempt(delivery: ClaimedDelivery, {now: began, monotonic}: Moment): Promise<void> {
		const end = await options.post(delivery).catch(error => {
			options.observer.webhookFault(error);
			return ourFault;
		});
		const when = moment();
		const acknowledged = end !== null && end.error === null;
		const after =
			end === null
				? putOff(delivery.attempts, when.now, options.backoffMs)
				: afterAttempt(delivery.attempts, acknowledged, when.now, options.backoffMs);
		const wasFailing = endpoints.isFailing(delivery.endpointId);
		// Its place is free from here on: for the next that waits, or for what the transaction claims that stores this end.
		start(endpoints.ended(delivery.endpointId, monotonic, acknowledged, end?.ms ?? 0, when), when);
		ended.push({delivery, end, began, ended: when.now, after, wasFailing});
		plan();
	}

	function due(endpointIds: readonly string[]): void {
		const now = clock.now();
		for (const endpointId of endpointIds) {
			endpoints.due(endpointId, now, now);
		}
		plan();
	}

	/** What waits in memory goes back: it may have been changed in the store. */
	function recall(): void {
		endpoints.recall(moment());
		plan();
	}

	async function rescan(): Promise<void> {
		const now = clock.now();
		recall();
		for (const {endpointId, due, failingSince} of await options.readWork()) {
			endpoints.found(endpointId, Date.parse(due), failingSince !== null, now);
		}
		plan();
	}

	return {
		/** Reads what is waiting in the store and begins. */
		async start(): Promise<void> {
			state = 'running';
			timer = setInterval(() => {
				endpoints.advance(moment());
				plan();
			}, tickMs);
			await rescan();
		},

		/** Something for these endpoints was committed and is due now. */
		due,

		/** Endpoints or deliveries may have been changed: nothing begins any more as it was. */
		recall,

		/** Something else changed what is due (the CLI, another node, the clock): looks at the store again. */
		rescan,

		/** Starts nothing more; resolves when every attempt under way has ended and is stored. */
		async stop(): Promise<void> {
			state = 'stopping';
			endpoints.recall(moment());
			clearInterval(timer);
			await new Promise<void>(resolve => {
				idle.push(resolve);
				plan();
			});
		},

		/** Attempts granted or under way. */
		get inFlight(): number {
			return endpoints.inFlight;
		},
	};
}
