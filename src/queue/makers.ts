import type {Attachment, Tracking} from '../mail/message.ts';
import {createForeignWork, type ForeignWorkOptions} from '../pool/foreign-work.ts';
import type {FromWorker, ToWorker} from '../pool/work-protocol.ts';
import type {Made, Unmade} from './attempt.ts';

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

export type ToMaker =
	| ToWorker<MakeJob>
	| {readonly kind: 'resource'; readonly name: string; readonly value: unknown; readonly fault?: string};

export type FromMaker = FromWorker<MakeResult> | {readonly kind: 'need'; readonly name: string};

type Order = Exclude<ToMaker, ToWorker<MakeJob>>;
type Message = Exclude<FromMaker, FromWorker<MakeResult>>;

export type MakersOptions = Pick<
	ForeignWorkOptions<MakeJob, Order, Message>,
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
export function createMakers(options: MakersOptions) {
	const work = createForeignWork<MakeJob, MakeResult, Order, Message>({
		...options,
		name: 'maker',
		noun: 'a message',
		batchSize,
		// One batch to work on, one to go on with at once.
		mostHeld: 2 * batchSize,
		mostBytes: mostAttached,
		bytesOf: ({attachments}) => attachments.reduce((sum, {content}) => sum + content.length, 0),
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

	return {
		async make(job: MakeJob): Promise<MakeResult> {
			const end = await work.do(job);
			if (!end.ok) {
				return {ok: false, unmade: unmade[end.why]};
			}
			const {result} = end;
			if (!result.ok && result.unmade.ours) {
				options.onResourceFault(job, result.unmade.message);
			}
			return result;
		},
		stop: work.stop,
	};
}
