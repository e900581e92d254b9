import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {addTurn, type FairRing, takeTurn, UrgentRing} from '../kit/fair-ring.ts';
import type {Attachment} from '../mail/message.ts';
import {
	ForeignWork,
	type ForeignWorkOptions,
	type FromWorker,
	type ThreadObserver,
	type ToWorker,
} from '../pool/foreign-work.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {Made, Unmade} from './attempt.ts';

/**
 * A claimed recipient with what its row does not have. A renderer caches the rest: templates by version, DKIM keys by
 * their ids.
 */
export type MakeJob = {
	readonly recipient: Claimed;
	/** All variables, JSON, where the recipient's lack sensitive ones; null: its mail is made without them. */
	readonly variables: string | null;
	readonly attachments: readonly Attachment[];
	/** Names the signing keys (resource `dkim:…`). */
	readonly signing: string;
	readonly returnPathDomain: string;
	/** The host of its links; null: that of the public URL. */
	readonly linkHost: string | null;
};

export type MakeResult = {readonly ok: true; readonly made: Made} | {readonly ok: false; readonly unmade: Unmade};

/**
 * `known`: of how many jobs that took long the main thread knew when it sent this one. `renderMs`: it gets less time
 * than usual.
 */
export type SentJob = MakeJob & {readonly known: number; readonly renderMs?: number};

/** `tookLong`: it failed and held other mail up. Null: not tried, for a mail of the same version did so just before. */
export type RendererResult = (MakeResult & {readonly tookLong?: boolean}) | null;

export type ToRenderer =
	| ToWorker<SentJob>
	| {readonly kind: 'resource'; readonly name: string; readonly value: unknown; readonly fault?: string};

export type FromRenderer = FromWorker<RendererResult> | {readonly kind: 'need'; readonly name: string};

/** `again`: it was not tried. `longer`: it was not made in `renderMs`. */
type Tried = MakeResult | 'again' | 'longer';

type Order = Exclude<ToRenderer, ToWorker<SentJob>>;
type Message = Exclude<FromRenderer, FromWorker<RendererResult>>;

type RenderersOptions = Pick<
	ForeignWorkOptions<SentJob, RendererResult, Order, Message>,
	'count' | 'spawn' | 'limitMs' | 'clock' | 'cpu'
> & {
	readonly observer: ThreadObserver & {
		/** A resource of this job cannot be used until an operator repairs it. */
		readonly resourceFault: (job: MakeJob, message: string) => void;
	};
	/** A template version or a set of DKIM keys, when a maker does not have it yet. */
	readonly resource: (name: string) => Promise<unknown>;
	/**
	 * Whether a resource could not be had for now: then it is asked for again. Any other error puts its messages off.
	 */
	readonly isUnavailable: (error: unknown) => boolean;
};

const batchSize = 8;
/** One batch to work on, one to go on with at once. */
const maxHeld = 2 * batchSize;
/** Attachments of the jobs that a maker has, octets: a job that has more is alone with it. */
const maxAttached = 512 * 1024;
const resourceRetryMs = 1000;
/** Wait of mail that the machine has no time for, milliseconds. */
const starvedRestMs = 60_000;

/**
 * The renderers: threads that render foreign templates. The message that took its thread down twice fails with
 * `render_limit`.
 */
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
			name: 'maker',
			noun: 'a message',
			batchSize,
			maxHeld,
			maxBytes: maxAttached,
			bytesOf: ({attachments}) => attachments.reduce((sum, {content}) => sum + content.length, 0),
			alike: {kindOf: ({recipient}) => recipient.version_id, result: null},
			receive: ({name}, answer) => void this.#provide(name, answer),
		});
	}

	/** `isUrgent`: it goes before other mail of its workspace. */
	async make(job: MakeJob, isUrgent = false): Promise<MakeResult> {
		let isQuick = !this.#slowTemplates.needsLong(job.recipient.id);
		for (;;) {
			const takesTurns = this.#slowTemplates.isSlow(job.recipient.version_id) || !isQuick;
			const made: Tried = await (takesTurns
				? this.#tryInTurn(job, isUrgent, isQuick)
				: this.#tryOnce(job, isUrgent));
			if (typeof made === 'object') {
				return made;
			}
			if (made === 'longer') {
				this.#slowTemplates.noteLong(job.recipient.id);
				isQuick = false;
			}
		}
	}

	async stop(): Promise<void> {
		this.#slowTemplates.stop();
		await this.#work.stop();
	}

	async #provide(name: string, answer: (order: Order) => void): Promise<void> {
		try {
			answer({kind: 'resource', name, value: await this.#options.resource(name)});
		} catch (error) {
			if (this.#options.isUnavailable(error)) {
				setTimeout(() => void this.#provide(name, answer), resourceRetryMs).unref();
				return;
			}
			const fault = error instanceof Error ? error.message : String(error);
			answer({kind: 'resource', name, value: null, fault});
		}
	}

	async #tryInTurn(job: MakeJob, isUrgent: boolean, isQuick: boolean): Promise<Tried> {
		const turn = await this.#slowTemplates.turn(job.recipient, isQuick);
		if (turn === 'closed') {
			return await this.#tryOnce(job, isUrgent);
		}
		if (turn === 'full') {
			const message = 'The mails before this one took longer to render than allowed.';
			const waitMs = this.#slowTemplates.waitMs(job.recipient.version_id, isQuick);
			return {ok: false, unmade: {reason: 'render_limit', message, waitMs, ours: true}};
		}
		try {
			return await this.#tryOnce(job, isUrgent, isQuick ? quickMs : undefined);
		} finally {
			this.#slowTemplates.done();
		}
	}

	async #tryOnce(job: MakeJob, isUrgent: boolean, renderMs?: number): Promise<Tried> {
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
			this.#slowTemplates.doubt(versionId);
			return 'again';
		}
		if (result.ok) {
			this.#slowTemplates.made(versionId);
			return result;
		}
		if (result.tookLong && renderMs !== undefined) {
			this.#slowTemplates.doubt(versionId);
			return 'longer';
		}
		if (result.tookLong) {
			this.#slowTemplates.failed(versionId);
		}
		if (result.unmade.ours) {
			this.#options.observer.resourceFault(job, result.unmade.message);
		}
		return {ok: false, unmade: result.unmade};
	}

	#unmade(why: 'spent' | 'starved' | 'stopped'): Unmade {
		switch (why) {
			case 'spent': {
				const message = `Rendering took longer than ${this.#options.limitMs} ms or too much memory.`;
				return {reason: 'render_limit', message};
			}
			case 'starved': {
				const message = 'The machine is too busy to render the mail.';
				return {reason: 'render_limit', message, waitMs: starvedRestMs};
			}
			case 'stopped':
				return {reason: 'make_failed', message: 'The makers were stopped.', waitMs: 0, ours: true};
		}
	}
}

/**
 * Who hands a job to the threads: as many as they hold, then workspaces in turn. So nobody waits behind another's
 * flood.
 */
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
/** `granted`: until `done`. `closed`: the version's mail no longer takes turns. `full`: too many wait already. */
type Turn = 'granted' | 'closed' | 'full';

/** After this many mails in a row were made, a version no longer takes turns. */
const madeAgain = 10;
/** Per workspace. A waiting copy occupies a place at its site. */
const maxWaiting = {quick: 32, long: 4};
/**
 * Time limit of a first rendering, milliseconds. Mails that need more come after the others. Shorter failures do not
 * count.
 */
export const quickMs = 100;
/** A long mail gets a turn at least this often, milliseconds. */
const longEveryMs = 5000;
const waitPerFailureMs = 1000;
const maxWaitMs = {quick: 10_000, long: 60_000};
const remembered = 1000;

/**
 * Template versions with a mail that exceeded the render limit. Their mails are rendered one at a time, with a pause as
 * long as each took, so that bad mails do not delay other templates.
 */
class SlowTemplates {
	readonly #clock: Clock;
	readonly #slow = new LRUCache<string, {failed: number; made: number}>({max: remembered});
	readonly #quick: FairRing<Waiting> = new Map();
	readonly #long: FairRing<Waiting> = new Map();
	/** Recipients that need longer: when they come back they do not try it quickly again. */
	readonly #longRecipients = new LRUCache<string, true>({max: remembered});
	#lastLong = 0;
	#failures = 0;
	#isTaken = false;
	#began = 0;
	#resting: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** How many failures are known so far. */
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

	/** One of the version's mails took too long. */
	failed(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failed: (this.#slow.peek(versionId)?.failed ?? 0) + 1, made: 0});
	}

	/** One of them takes long at this moment. */
	doubt(versionId: string): void {
		this.#failures++;
		this.#slow.set(versionId, {failed: this.#slow.peek(versionId)?.failed ?? 0, made: 0});
	}

	/** One was made in time. */
	made(versionId: string): void {
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

	turn({version_id: versionId, workspace_id: workspaceId}: Sort, isQuick: boolean): Promise<Turn> | Turn {
		const [ring, most] = isQuick ? [this.#quick, maxWaiting.quick] : [this.#long, maxWaiting.long];
		if (this.#isStopped) {
			return 'closed';
		}
		if ((ring.get(workspaceId)?.size ?? 0) >= most) {
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
		this.#resting = setTimeout(() => this.#next(), this.#clock.monotonic() - this.#began);
	}

	/** After how long it is worth to look again for a mail that found no place, milliseconds. */
	waitMs(versionId: string, isQuick: boolean): number {
		const failed = this.#slow.peek(versionId)?.failed ?? 0;
		return Math.min(maxWaitMs[isQuick ? 'quick' : 'long'], waitPerFailureMs * Math.max(1, failed));
	}

	/** Lets all that wait go on. */
	stop(): void {
		this.#isStopped = true;
		clearTimeout(this.#resting);
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
