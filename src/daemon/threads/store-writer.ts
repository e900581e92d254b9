import {parentPort, workerData} from 'node:worker_threads';
import {createSharedClock} from '../../kit/clock.ts';
import type {OpenFile} from '../../kit/open-files.ts';
import {createIdSource} from '../../mail/ids.ts';
import {createEngagementWrite} from '../../outcome/engagement.ts';
import type {EventWriter} from '../../outcome/outbox.ts';
import {createRecordWrite} from '../../outcome/record.ts';
import {createUnsubscribeWrite} from '../../outcome/unsubscribe.ts';
import {keyUseWrite} from '../../resources/keys/store.ts';
import {createDispatchWrite} from '../../resources/webhooks/turn.ts';
import {createAcceptWrite} from '../../send/write.ts';
import {answerWrites} from '../../store/engine/writer-thread.ts';
import {createClaimWrite} from '../../store/queue/claims.ts';
import {createQueueWaitWrite} from '../../store/queue/open-recipients.ts';
import {siteWrite} from '../../store/queue/sites.ts';
import {openWriter} from '../../store/store.ts';

/** The data with which the writer thread is started. */
export type WriterData = {
	/** The SQLite file. */
	readonly file: string;
	/** The files that every commit must reach. */
	readonly committed: readonly OpenFile[];
	/** The memory of the daemon's clock. */
	readonly time: SharedArrayBuffer;
	/** The id that the daemon's claims carry. */
	readonly boot: string;
	readonly live: WriterLive;
	/** Signals that all work has ended. */
	readonly ended: SharedArrayBuffer;
};

/** The settings that may change at runtime. */
export type WriterLive = {
	/** How long an Idempotency-Key is remembered, in milliseconds. */
	readonly keyRetention: number;
};

/**
 * News about commits: endpoints with deliveries due, workspaces with new reputation figures, and how long a commit
 * took.
 */
export type WriterNews =
	| {readonly kind: 'due' | 'counted'; readonly ids: readonly string[]}
	| {readonly kind: 'commit'; readonly ms: number};

/** Commits slower than this are reported to the main thread, as is the first fast one after them. */
const slowCommitMs = 1000;

const {file, committed, time, boot, ended, ...data} = workerData as WriterData;
let live = data.live;
const clock = createSharedClock(time);
const newId = createIdSource(clock);
const eventWriter: EventWriter = {
	newId,
	onDue: ids => send({kind: 'due', ids}),
	onCounted: ids => send({kind: 'counted', ids}),
};
const {writer, dialect, close} = await openWriter(file, committed);
const send = answerWrites<WriterLive, WriterNews>(parentPort as NonNullable<typeof parentPort>, {
	ended,
	writer,
	// The frequent writes whose arguments are plain data. Reports and suppressions involve functions, so the main
	// thread does those.
	writes: [
		createAcceptWrite({clock, newId, keyRetention: () => live.keyRetention}),
		createClaimWrite({dialect, boot, newId, clock}),
		createRecordWrite(boot, eventWriter),
		createDispatchWrite(eventWriter),
		createEngagementWrite(clock, eventWriter),
		createUnsubscribeWrite(eventWriter),
		siteWrite,
		createQueueWaitWrite(boot),
		keyUseWrite,
	],
	live(next) {
		live = next;
	},
	close,
});
let wasSlow = false;
writer.onCommit?.(ms => {
	const isSlow = ms > slowCommitMs;
	if (isSlow || wasSlow) {
		send({kind: 'commit', ms});
	}
	wasSlow = isSlow;
});
