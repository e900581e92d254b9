import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {addTurn, type FairRing, takeTurn, UrgentRing} from '../kit/fair-ring.ts';
import {
	ForeignWork,
	type ForeignWorkOptions,
	type FromWorker,
	type ThreadObserver,
	type ToWorker,
} from '../kit/foreign-work.ts';
import type {Attachment} from '../mail/message.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {ComposedMessage, Unmade} from './attempt.ts';

/** A claimed recipient and the data that its row lacks. Renderers cache templates by version and DKIM keys by id. */
export type MakeJob = {
	readonly recipient: Claimed;
	/** All variables as JSON, if the recipient's row lacks sensitive ones; `null` to render without them. */
	readonly variables: string | null;
	readonly attachments: readonly Attachment[];
	/** Names the signing keys (resource `dkim:…`). */
	readonly signing: string;
	readonly returnPathDomain: string;
	/** The host of its links, or `null` for that of the public URL. */
	readonly linkHost: string | null;
};

export type MakeResult =
	| {readonly ok: true; readonly message: ComposedMessage}
	| {readonly ok: false; readonly unmade: Unmade};

/** `known` is how many slow jobs were known when this one was sent. `renderMs` gives it less time than usual. */
export type SentJob = MakeJob & {readonly known: number; readonly renderMs?: number};

/**
 * `wasSlow` means that the job failed and delayed other mail. The result is `null` if the job was not run because a
 * message of the same version failed just before it.
 */
export type RendererResult = (MakeResult & {readonly wasSlow?: boolean}) | null;

export type ToRenderer =
	| ToWorker<SentJob>
	| {readonly kind: 'resource'; readonly name: string; readonly value: unknown; readonly problem?: string};

export type FromRenderer = FromWorker<RendererResult> | {readonly kind: 'need'; readonly name: string};

/** `again` means that the job was not run, `longer` that it was not finished within `renderMs`. */
type RenderOutcome = MakeResult | 'again' | 'longer';

type Order = Exclude<ToRenderer, ToWorker<SentJob>>;
type Message = Exclude<FromRenderer, FromWorker<RendererResult>>;

type RenderersOptions = Pick<
	ForeignWorkOptions<SentJob, RendererResult, Order, Message>,
	'count' | 'spawn' | 'limitMs' | 'clock' | 'cpu'
> & {
	readonly observer: ThreadObserver & {
		/** A resource of this job is unusable until an operator repairs it. */
		readonly resourceProblem: (job: MakeJob, message: string) => void;
	};
	/** Loads a template version or a set of DKIM keys that a renderer does not have yet. */
	readonly resource: (name: string) => Promise<unknown>;
	/** Whether the resource is only unavailable for now and is requested again. Other errors postpone messages. */
	readonly isUnavailable: (error: unknown) => boolean;
};

const batchSize = 8;
/** One batch to work on and one to continue with immediately. */
const maxHeld = 2 * batchSize;
/** How many octets of attachments a renderer may hold. A job with more is rendered on its own. */
const maxAttachmentBytes = 512 * 1024;
const resourceRetryMs = 1000;
/** How long a message waits if the machine was too busy to render it, in milliseconds. */
const busyWaitMs = 60_000;

/** The threads that render templates of users. A message that kills its thread twice fails (`render_limit`). */
export class Renderers {
	readonly #options: RenderersOptions;
	readonly #work: ForeignWork<SentJob, RendererResult, Order, Message>;
	readonly #slowTemplates: SlowTemplates;
	readonly #turns: Turns;

	constructor(options: RenderersOptions) {
		this.#options = options;
		this.#turns = new Turns(options.count * maxHeld);
		this.#slowTemplates = new SlowTemplates(options.clock);
		this.#work = new ForeignWork<SentJob, RendererResult, Order, Message>({
			...options,
			name: 'renderer',
			noun: 'a message',
			batchSize,
			maxHeld,
			maxBytes: maxAttachmentBytes,
			bytesOf: ({attachments}) => attachments.reduce((sum, {content}) => sum + content.length, 0),
			alike: {kindOf: ({recipient}) => recipient.version_id, result: null},
			receive: ({name}, respond) => void this.#provide(name, respond),
		});
	}

	/** Starts a renderer, so that a message that follows soon finds it running. */
	prepare(): void {
		this.#work.prepare();
	}

	/** Renders the message. `isUrgent` puts it before other mail of its workspace. */
	async make(job: MakeJob, isUrgent = false): Promise<MakeResult> {
		let isQuick = !this.#slowTemplates.needsLong(job.recipient.id);
		for (;;) {
			const shouldTakeTurn = this.#slowTemplates.isSlow(job.recipient.version_id) || !isQuick;
			const result: RenderOutcome = await (shouldTakeTurn
				? this.#tryInTurn(job, isUrgent, isQuick)
				: this.#tryOnce(job, isUrgent));
			if (typeof result === 'object') {
				return result;
			}
			if (result === 'longer') {
				this.#slowTemplates.noteLong(job.recipient.id);
				isQuick = false;
			}
		}
	}

	async stop(): Promise<void> {
		this.#slowTemplates.stop();
		await this.#work.stop();
	}

	async #provide(name: string, respond: (order: Order) => void): Promise<void> {
		try {
			respond({kind: 'resource', name, value: await this.#options.resource(name)});
		} catch (error) {
			if (this.#options.isUnavailable(error)) {
				setTimeout(() => void this.#provide(name, respond), resourceRetryMs).unref();
				return;
			}
			const problem = error instanceof Error ? error.message : String(error);
			respond({kind: 'resource', name, value: null, problem});
		}
	}

	async #tryInTurn(job: MakeJob, isUrgent: boolean, isQuick: boolean): Promise<RenderOutcome> {
		const turn = await this.#slowTemplates.awaitTurn(job.recipient, isQuick);
		if (turn === 'closed') {
			return await this.#tryOnce(job, isUrgent);
		}
		if (turn === 'full') {
			const message =
				'Earlier messages from this template exceeded the render limit, so this one is waiting for its turn.';
			const waitMs = this.#slowTemplates.waitMs(job.recipient.version_id, isQuick);
			return {ok: false, unmade: {reason: 'render_limit', message, waitMs, isOurs: true}};
		}
		try {
			return await this.#tryOnce(job, isUrgent, isQuick ? quickMs : undefined);
		} finally {
			this.#slowTemplates.done();
		}
	}

	async #tryOnce(job: MakeJob, isUrgent: boolean, renderMs?: number): Promise<RenderOutcome> {
		const {version_id: versionId, workspace_id: workspaceId} = job.recipient;
		await this.#turns.take(workspaceId, isUrgent);
		const known = this.#slowTemplates.known();
		const outcome = await this.#work.do({...job, known, ...(renderMs !== undefined && {renderMs})});
		this.#turns.giveBack();
		if (!outcome.ok) {
			if (outcome.why === 'spent') {
				this.#slowTemplates.failed(versionId);
			}
			return {ok: false, unmade: this.#toUnmade(outcome.why)};
		}
		const {result} = outcome;
		if (result === null) {
			this.#slowTemplates.markSlow(versionId);
			return 'again';
		}
		if (result.ok) {
			this.#slowTemplates.succeeded(versionId);
			return result;
		}
		if (result.wasSlow && renderMs !== undefined) {
			this.#slowTemplates.markSlow(versionId);
			return 'longer';
		}
		if (result.wasSlow) {
			this.#slowTemplates.failed(versionId);
		}
		if (result.unmade.isOurs) {
			this.#options.observer.resourceProblem(job, result.unmade.message);
		}
		return {ok: false, unmade: result.unmade};
	}

	#toUnmade(why: 'spent' | 'starved' | 'stopped'): Unmade {
		switch (why) {
			case 'spent': {
				const message = `Rendering took longer than ${this.#options.limitMs} ms or used too much memory.`;
				return {reason: 'render_limit', message};
			}
			case 'starved': {
				const message = 'The machine is too busy to render the message.';
				return {reason: 'render_limit', message, waitMs: busyWaitMs};
			}
			case 'stopped':
				return {reason: 'make_failed', message: 'The renderers were stopped.', waitMs: 0, isOurs: true};
		}
	}
}

/** Lets workspaces pass jobs to the threads in turn, so that nobody waits behind another's backlog. */
class Turns {
	readonly #waiting = new UrgentRing<() => void>();
	#free: number;

	constructor(count: number) {
		this.#free = count;
	}

	take(workspaceId: string, isUrgent: boolean): Promise<void> | void {
		if (this.#free > 0) {
			this.#free--;
			return;
		}
		return new Promise(resume => this.#waiting.add(workspaceId, resume, isUrgent));
	}

	giveBack(): void {
		const next = this.#waiting.take();
		if (next) {
			next();
		} else {
			this.#free++;
		}
	}
}

type Version = Pick<Claimed, 'version_id' | 'workspace_id'>;
type Waiting = {readonly versionId: string; readonly resume: (turn: Turn) => void};
/** `granted`: until `done`. `closed`: the version's mail takes no more turns. `full`: too many are waiting already. */
type Turn = 'granted' | 'closed' | 'full';

/** A version no longer takes turns after this many messages in a row were rendered in time. */
const successesToRecover = 10;
/** The maximum number of waiting messages per workspace. Each of them uses some of its provider's capacity. */
const maxWaiting = {quick: 32, long: 4};
/** The time limit of the first rendering (ms). Exceeding it moves a message behind others; it is not a failure. */
export const quickMs = 100;
/** A message that needs longer gets a turn at least this often, in milliseconds. */
const maxLongGapMs = 5000;
const waitPerFailureMs = 1000;
const maxWaitMs = {quick: 10_000, long: 60_000};
const maxRemembered = 1000;

/**
 * Template versions of which a message exceeded the render limit. Their messages are rendered one at a time, each
 * followed by a pause as long as it took, so that they do not delay other templates.
 */
class SlowTemplates {
	readonly #clock: Clock;
	readonly #slow = new LRUCache<string, {failures: number; successes: number}>({max: maxRemembered});
	readonly #quick: FairRing<Waiting> = new Map();
	readonly #long: FairRing<Waiting> = new Map();
	/** Recipients whose messages need longer. At later attempts the short limit is skipped for them. */
	readonly #longRecipients = new LRUCache<string, true>({max: maxRemembered});
	#lastLong = 0;
	#failures = 0;
	#isBusy = false;
	#startedAt = 0;
	#restTimer: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** The number of failures so far. */
	known(): number {
		return this.#failures;
	}

	isSlow(versionId: string): boolean {
		return this.#slow.has(versionId);
	}

	needsLong(recipientId: string): boolean {
		return this.#longRecipients.has(recipientId);
	}

	noteLong(recipientId: string): void {
		this.#longRecipients.set(recipientId, true);
	}

	/** Notes that a message of this version took too long. */
	failed(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failures: (this.#slow.peek(versionId)?.failures ?? 0) + 1, successes: 0});
	}

	/** Notes that a message of this version is taking long now, which does not count as its failure. */
	markSlow(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failures: this.#slow.peek(versionId)?.failures ?? 0, successes: 0});
	}

	/** Notes that a message of this version was rendered in time. */
	succeeded(versionId: string): void {
		const known = this.#slow.get(versionId);
		if (!known) {
			return;
		}
		Object.assign(known, {failures: 0, successes: known.successes + 1});
		if (known.successes >= successesToRecover) {
			this.#slow.delete(versionId);
			for (const [workspaceId, items] of this.#quick) {
				for (const item of [...items].filter(item => item.versionId === versionId)) {
					items.delete(item);
					item.resume('closed');
				}
				if (items.size === 0) {
					this.#quick.delete(workspaceId);
				}
			}
		}
	}

	awaitTurn({version_id: versionId, workspace_id: workspaceId}: Version, isQuick: boolean): Promise<Turn> | Turn {
		const [ring, max] = isQuick ? [this.#quick, maxWaiting.quick] : [this.#long, maxWaiting.long];
		if (this.#isStopped) {
			return 'closed';
		}
		if ((ring.get(workspaceId)?.size ?? 0) >= max) {
			return 'full';
		}
		if (!isQuick && this.#long.size === 0) {
			this.#lastLong = this.#clock.monotonic();
		}
		return new Promise(resume => {
			addTurn(ring, workspaceId, {versionId, resume});
			if (!this.#isBusy) {
				this.#next();
			}
		});
	}

	done(): void {
		this.#restTimer = setTimeout(() => this.#next(), this.#clock.monotonic() - this.#startedAt);
	}

	/** How long a message should wait before it is attempted again after `full`, in milliseconds. */
	waitMs(versionId: string, isQuick: boolean): number {
		const failures = this.#slow.peek(versionId)?.failures ?? 0;
		return Math.min(maxWaitMs[isQuick ? 'quick' : 'long'], waitPerFailureMs * Math.max(1, failures));
	}

	/** Lets all waiting messages proceed. */
	stop(): void {
		this.#isStopped = true;
		clearTimeout(this.#restTimer);
		const waiting = [this.#quick, this.#long].flatMap(ring => [...ring.values()].flatMap(items => [...items]));
		for (const {resume} of waiting) {
			resume('closed');
		}
		this.#quick.clear();
		this.#long.clear();
	}

	#next(): void {
		this.#isBusy = false;
		this.#startedAt = this.#clock.monotonic();
		const quick = this.#startedAt - this.#lastLong < maxLongGapMs ? takeTurn(this.#quick) : undefined;
		const long = quick ? undefined : takeTurn(this.#long);
		const next = quick ?? long ?? takeTurn(this.#quick);
		if (long) {
			this.#lastLong = this.#startedAt;
		}
		if (next) {
			this.#isBusy = true;
			next.resume('granted');
		}
	}
}
