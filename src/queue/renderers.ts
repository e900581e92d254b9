import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import type {Attachment, Tracking} from '../mail/message.ts';
import {createForeignWork, type ForeignWorkOptions, type FromWorker, type ToWorker} from '../pool/foreign-work.ts';
import type {Made, Unmade} from './attempt.ts';
import {addTurn, type FairRing, takeTurn} from './waiting-order.ts';

/** Everything a maker needs for one copy, apart from what it caches: templates by version, DKIM keys by their ids. */
export type MakeJob = {
	readonly recipientId: string;
	readonly messageId: string;
	readonly workspaceId: string;
	readonly workspaceName: string;
	/** The copy's own address, as given. */
	readonly address: string;
	readonly role: 'to' | 'cc';
	readonly acceptedAt: number;
	readonly from: string;
	readonly fromName: string | null;
	readonly to: string;
	readonly cc: readonly string[];
	readonly replyTo: string | null;
	readonly templateId: string;
	readonly versionId: string;
	/** The message's own, the contact's or the workspace's, else `en` and `UTC`. */
	readonly locale: string;
	readonly workspaceLocale: string | null;
	readonly timezone: string;
	/** JSON text. */
	readonly data: string | null;
	readonly topicId: string | null;
	readonly topicCode: string | null;
	readonly tracking: Tracking;
	readonly attachments: readonly Attachment[];
	/** Names the signing keys (resource `dkim:…`). */
	readonly signing: string;
	readonly returnPathDomain: string;
};

export type MakeResult = {readonly ok: true; readonly made: Made} | {readonly ok: false; readonly unmade: Unmade};

/** `known`: of how many jobs that took long the main thread knew when it sent this one. `renderMs`: it gets less time than usual. */
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
	'count' | 'spawn' | 'limitMs' | 'clock' | 'cpu' | 'onCrash'
> & {
	/** A template version or a set of DKIM keys, when a maker does not have it yet. */
	readonly resource: (name: string) => Promise<unknown>;
	/** Whether a resource could not be had for now: then it is asked for again. Any other error puts its messages off. */
	readonly isUnavailable: (error: unknown) => boolean;
	/** A resource of this job cannot be used until somebody repairs it. */
	readonly onResourceFault: (job: MakeJob, message: string) => void;
};

const batchSize = 8;
/** Attachments of the jobs that a maker has, octets: a job that has more is alone with it. */
const mostAttached = 512 * 1024;
const resourceRetryMs = 1000;
/** Mail that the machine has no time for is put off for so long, milliseconds. */
const starvedRestMs = 60_000;

/** The maker threads: they render foreign templates. The message that took its maker down twice fails with `render_limit`. */
export function createRenderers(options: RenderersOptions) {
	const work = createForeignWork<SentJob, RendererResult, Order, Message>({
		...options,
		name: 'maker',
		noun: 'a message',
		batchSize,
		// One batch to work on, one to go on with at once.
		mostHeld: 2 * batchSize,
		mostBytes: mostAttached,
		bytesOf: ({attachments}) => attachments.reduce((sum, {content}) => sum + content.length, 0),
		alike: {kindOf: ({versionId}) => versionId, result: null},
		onMessage: ({name}, answer) => void provide(name, answer),
	});

	async function provide(name: string, answer: (order: Order) => void): Promise<void> {
		try {
			answer({kind: 'resource', name, value: await options.resource(name)});
		} catch (error) {
			if (options.isUnavailable(error)) {
				setTimeout(provide, resourceRetryMs, name, answer).unref();
				return;
			}
			const fault = error instanceof Error ? error.message : String(error);
			answer({kind: 'resource', name, value: null, fault});
		}
	}

	const patience = createPatience(options.clock);

	const unmade: Record<'spent' | 'starved' | 'stopped', Unmade> = {
		spent: {
			reason: 'render_limit',
			message: `Rendering took longer than ${options.limitMs} ms or too much memory.`,
		},
		starved: {
			reason: 'render_limit',
			message: 'The machine is too busy to render the mail.',
			waitMs: starvedRestMs,
		},
		stopped: {reason: 'make_failed', message: 'The makers were stopped.', waitMs: 0, ours: true},
	};

	async function tryOnce(job: MakeJob, renderMs?: number): Promise<Tried> {
		const {versionId} = job;
		const end = await work.do({...job, known: patience.known(), ...(renderMs !== undefined && {renderMs})});
		if (!end.ok) {
			if (end.why === 'spent') {
				patience.failed(versionId);
			}
			return {ok: false, unmade: unmade[end.why]};
		}
		const {result} = end;
		if (result === null) {
			patience.doubt(versionId);
			return 'again';
		}
		if (result.ok) {
			patience.made(versionId);
			return result;
		}
		if (result.tookLong && renderMs !== undefined) {
			patience.doubt(versionId);
			return 'longer';
		}
		if (result.tookLong) {
			patience.failed(versionId);
		}
		if (result.unmade.ours) {
			options.onResourceFault(job, result.unmade.message);
		}
		return {ok: false, unmade: result.unmade};
	}

	async function tryInTurn(job: MakeJob, isQuick: boolean): Promise<Tried> {
		const turn = await patience.turn(job, isQuick);
		if (turn === 'none') {
			return await tryOnce(job);
		}
		if (turn === 'full') {
			const message = 'The mails before this one took longer to render than allowed.';
			return {
				ok: false,
				unmade: {reason: 'render_limit', message, waitMs: patience.waitMs(job.versionId, isQuick), ours: true},
			};
		}
		try {
			return await tryOnce(job, isQuick ? quickMs : undefined);
		} finally {
			patience.done();
		}
	}

	return {
		async make(job: MakeJob): Promise<MakeResult> {
			let isQuick = !patience.needsLong(job.recipientId);
			for (;;) {
				const made: Tried = await (patience.isSlow(job.versionId) || !isQuick ? tryInTurn(job, isQuick) : tryOnce(job));
				if (typeof made === 'object') {
					return made;
				}
				if (made === 'longer') {
					patience.noteLong(job.recipientId);
					isQuick = false;
				}
			}
		},
		async stop(): Promise<void> {
			patience.stop();
			await work.stop();
		},
	};
}

type Sort = Pick<MakeJob, 'versionId' | 'workspaceId'>;
type Waiting = {readonly versionId: string; readonly go: (turn: Turn) => void};
/** `mine`: nobody else's until `done`. `none`: the version's mail no longer takes turns. `full`: too many wait already. */
type Turn = 'mine' | 'none' | 'full';

/** After this many mails in a row were made, a version no longer takes turns. */
const madeAgain = 10;
/** Per workspace. A waiting copy occupies a place at its site. */
const mostWaiting = {quick: 32, long: 4};
/** Time limit of a first rendering, milliseconds. Mails that need more come after the others. Shorter failures do not count. */
export const quickMs = 100;
/** A long mail gets a turn at least this often, milliseconds. */
const longEveryMs = 5000;
const waitPerFailureMs = 1000;
const longestWaitMs = {quick: 10_000, long: 60_000};
const remembered = 1000;

/**
 * Template versions with a mail that exceeded the render limit. Their mails are rendered one at a time, with a pause as long as
 * each took, so that bad mails do not delay other templates.
 */
function createPatience(clock: Clock) {
	const slow = new LRUCache<string, {failed: number; made: number}>({max: remembered});
	const quick: FairRing<Waiting> = new Map();
	const long: FairRing<Waiting> = new Map();
	/** Copies that need longer: when they come back they do not try it quickly again. */
	const longRecipients = new LRUCache<string, true>({max: remembered});
	let lastLong = 0;
	let failures = 0;
	let isTaken = false;
	let began = 0;
	let resting: NodeJS.Timeout | undefined;
	let isStopped = false;

	function next(): void {
		isTaken = false;
		began = clock.monotonic();
		const soon = began - lastLong < longEveryMs ? takeTurn(quick) : undefined;
		const late = soon ? undefined : takeTurn(long);
		const first = soon ?? late ?? takeTurn(quick);
		if (late) {
			lastLong = began;
		}
		if (first) {
			isTaken = true;
			first.go('mine');
		}
	}

	return {
		/** How many failures are known so far. */
		known: () => failures,

		isSlow: (versionId: string): boolean => slow.has(versionId),

		needsLong: (recipientId: string): boolean => longRecipients.has(recipientId),

		noteLong: (recipientId: string): void => void longRecipients.set(recipientId, true),

		/** One of the version's mails took too long. */
		failed(versionId: string): void {
			failures++;
			slow.set(versionId, {failed: (slow.peek(versionId)?.failed ?? 0) + 1, made: 0});
		},

		/** One of them takes long at this moment. */
		doubt(versionId: string): void {
			failures++;
			slow.set(versionId, {failed: slow.peek(versionId)?.failed ?? 0, made: 0});
		},

		/** One was made in time. */
		made(versionId: string): void {
			const known = slow.get(versionId);
			if (!known) {
				return;
			}
			Object.assign(known, {failed: 0, made: known.made + 1});
			if (known.made >= madeAgain) {
				slow.delete(versionId);
				for (const [workspaceId, items] of quick) {
					for (const item of [...items].filter(item => item.versionId === versionId)) {
						items.delete(item);
						item.go('none');
					}
					if (items.size === 0) {
						quick.delete(workspaceId);
					}
				}
			}
		},

		turn({versionId, workspaceId}: Sort, isQuick: boolean): Promise<Turn> | Turn {
			const [ring, most] = isQuick ? [quick, mostWaiting.quick] : [long, mostWaiting.long];
			if (isStopped) {
				return 'none';
			}
			if ((ring.get(workspaceId)?.size ?? 0) >= most) {
				return 'full';
			}
			if (!isQuick && long.size === 0) {
				lastLong = clock.monotonic();
			}
			return new Promise(go => {
				addTurn(ring, workspaceId, {versionId, go});
				if (!isTaken) {
					next();
				}
			});
		},

		done(): void {
			resting = setTimeout(next, clock.monotonic() - began);
		},

		/** After how long it is worth to look again for a mail that found no place, milliseconds. */
		waitMs: (versionId: string, isQuick: boolean): number =>
			Math.min(
				longestWaitMs[isQuick ? 'quick' : 'long'],
				waitPerFailureMs * Math.max(1, slow.peek(versionId)?.failed ?? 0),
			),

		/** Nobody waits any more. */
		stop(): void {
			isStopped = true;
			clearTimeout(resting);
			for (const {go} of [quick, long].flatMap(ring => [...ring.values()].flatMap(items => [...items]))) {
				go('none');
			}
			quick.clear();
			long.clear();
		},
	};
}
