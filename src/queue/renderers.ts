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
/** One batch to work on and one to continue with at once. */
const maxHeld = 2 * batchSize;
/** How many octets of attachments a renderer may hold. A job with more is rendered on its own. */
const maxAttached = 512 * 1024;
const resourceRetryMs = 1000;
/** How long a message waits if the machine was too busy to render it, in milliseconds. */
const starvedRestMs = 60_000;

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
			maxBytes: maxAttached,
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
		const end = await this.#work.do({...job, known, ...(renderMs !== undefined && {renderMs})});
		this.#turns.giveBack();
		if (!end.ok) {
			if (end.why === 'spent') {
				this.#slowTemplates.failed(versionId);
			}
			return {ok: false, unmade: this.#unmade(end.why)};
		}
		const {result} = end;
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

	#unmade(why: 'spent' | 'starved' | 'stopped'): Unmade {
		switch (why) {
			case 'spent': {
				const message = `Rendering took longer than ${this.#options.limitMs} ms or used too much memory.`;
				return {reason: 'render_limit', message};
			}
			case 'starved': {
				const message = 'The machine is too busy to render the message.';
				return {reason: 'render_limit', message, waitMs: starvedRestMs};
			}
			case 'stopped':
				return {reason: 'make_failed', message: 'The renderers were stopped.', waitMs: 0, isOurs: true};
		}
	}
}

/** Decides who may pass a job to the threads, workspaces in turn, so that nobody waits behind another's flood. */
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
		return new Promise(go => this.#waiting.add(workspaceId, go, isUrgent));
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

type Sort = Pick<Claimed, 'version_id' | 'workspace_id'>;
type Waiting = {readonly versionId: string; readonly go: (turn: Turn) => void};
/** `granted`: until `done`. `closed`: the version's mail takes no more turns. `full`: too many are waiting already. */
type Turn = 'granted' | 'closed' | 'full';

/** A version no longer takes turns after this many messages in a row were rendered in time. */
const madeAgain = 10;
/** The maximum number of waiting messages per workspace. Each of them uses some of its provider's capacity. */
const maxWaiting = {quick: 32, long: 4};
/** The time limit of the first rendering (ms). Exceeding it moves a message behind others; it is not a failure. */
export const quickMs = 100;
/** A message that needs long gets a turn at least this often, in milliseconds. */
const longEveryMs = 5000;
const waitPerFailureMs = 1000;
const maxWaitMs = {quick: 10_000, long: 60_000};
const remembered = 1000;

/**
 * Template versions of which a message exceeded the render limit. Their messages are rendered one at a time, each
 * followed by a pause as long as it took, so that they do not delay other templates.
 */
class SlowTemplates {
	readonly #clock: Clock;
	readonly #slow = new LRUCache<string, {failed: number; made: number}>({max: remembered});
	readonly #quick: FairRing<Waiting> = new Map();
	readonly #long: FairRing<Waiting> = new Map();
	/** Recipients whose messages need longer. When they come back, the short limit is skipped. */
	readonly #longRecipients = new LRUCache<string, true>({max: remembered});
	#lastLong = 0;
	#failures = 0;
	#isTaken = false;
	#began = 0;
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

	/** A message of this version took too long. */
	failed(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failed: (this.#slow.peek(versionId)?.failed ?? 0) + 1, made: 0});
	}

	/** A message of this version is taking long right now. */
	markSlow(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failed: this.#slow.peek(versionId)?.failed ?? 0, made: 0});
	}

	/** A message of this version was rendered in time. */
	succeeded(versionId: string): void {
		const known = this.#slow.get(versionId);
		if (!known) {
			return;
		}
		Object.assign(known, {failed: 0, made: known.made + 1});
		if (known.made >= madeAgain) {
			this.#slow.delete(versionId);
			for (const [workspaceId, items] of this.#quick) {
				for (const item of [...items].filter(item => item.versionId === versionId)) {
					items.delete(item);
					item.go('closed');
				}
				if (items.size === 0) {
					this.#quick.delete(workspaceId);
				}
			}
		}
	}

	awaitTurn({version_id: versionId, workspace_id: workspaceId}: Sort, isQuick: boolean): Promise<Turn> | Turn {
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
		return new Promise(go => {
			addTurn(ring, workspaceId, {versionId, go});
			if (!this.#isTaken) {
				this.#next();
			}
		});
	}

	done(): void {
		this.#restTimer = setTimeout(() => this.#next(), this.#clock.monotonic() - this.#began);
	}

	/** How long a message should wait before it is attempted again after `full`, in milliseconds. */
	waitMs(versionId: string, isQuick: boolean): number {
		const failed = this.#slow.peek(versionId)?.failed ?? 0;
		return Math.min(maxWaitMs[isQuick ? 'quick' : 'long'], waitPerFailureMs * Math.max(1, failed));
	}

	/** Lets all waiting messages proceed. */
	stop(): void {
		this.#isStopped = true;
		clearTimeout(this.#restTimer);
		for (const {go} of [this.#quick, this.#long].flatMap(ring => [...ring.values()].flatMap(items => [...items]))) {
			go('closed');
		}
		this.#quick.clear();
		this.#long.clear();
	}

	#next(): void {
		this.#isTaken = false;
		this.#began = this.#clock.monotonic();
		const soon = this.#began - this.#lastLong < longEveryMs ? takeTurn(this.#quick) : undefined;
		const late = soon ? undefined : takeTurn(this.#long);
		const first = soon ?? late ?? takeTurn(this.#quick);
		if (late) {
			this.#lastLong = this.#began;
		}
		if (first) {
			this.#isTaken = true;
			first.go('granted');
		}
	}
}
