import {parentPort, workerData} from 'node:worker_threads';
import {createAcceptWrite} from '../accept/write.ts';
import {createSharedClock} from '../kit/clock.ts';
import type {OpenFile} from '../kit/open-files.ts';
import {createIdSource} from '../mail/ids.ts';
import {createEngagementWrite} from '../outcome/engagement.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {createRecordWrite} from '../outcome/record.ts';
import {createUnsubscribeWrite} from '../outcome/unsubscribe.ts';
import {keyUseWrite} from '../store/api-keys.ts';
import {answerWrites} from '../store/engine/writer-thread.ts';
import {createClaimWrite} from '../store/queue/claims.ts';
import {createQueueWaitWrite} from '../store/queue/open-recipients.ts';
import {siteWrite} from '../store/queue/sites.ts';
import {openWriter} from '../store/store.ts';
import {createTurnWrite} from '../webhook/turn.ts';

/** What the thread that writes is started with. */
export type WriterData = {
	/** SQLite's. */
	readonly file: string;
	/** Where commits must go. */
	readonly committed: readonly OpenFile[];
	/** Of the daemon's clock. */
	readonly time: SharedArrayBuffer;
	/** The daemon's claims have this id. */
	readonly boot: string;
	readonly live: WriterLive;
	/** Shows that nothing is under way any more. */
	readonly ended: SharedArrayBuffer;
};

/** The settings that may change while it runs. */
export type WriterLive = {
	/** How long an Idempotency-Key is remembered, milliseconds. */
	readonly keyRetention: number;
};

/**
 * What else was committed: endpoints have something due, workspaces have new reputation figures; how long a commit
 * took.
 */
export type WriterNews =
	| {readonly kind: 'due' | 'counted'; readonly ids: readonly string[]}
	| {readonly kind: 'commit'; readonly ms: number};

/** The main thread hears of slow commits, and of the first quick one after them. */
const slowCommitMs = 1000;

const {file, committed, time, boot, ended, ...data} = workerData as WriterData;
let live = data.live;
const clock = createSharedClock(time);
const newId = createIdSource(clock);
const eventWriter: EventWriter = {
	newId,
	onDue: ids => tell({kind: 'due', ids}),
	onCounted: ids => tell({kind: 'counted', ids}),
};
const {writer, dialect, close} = await openWriter(file, committed);
const tell = answerWrites<WriterLive, WriterNews>(parentPort as NonNullable<typeof parentPort>, {
	ended,
	writer,
	// Those of busy hours that are made of plain data. The main thread makes the others: reports and suppressions bring
	// functions.
	writes: [
		createAcceptWrite({clock, newId, keyRetention: () => live.keyRetention}),
		createClaimWrite({dialect, boot, newId, clock}),
		createRecordWrite(boot, eventWriter),
		createTurnWrite(eventWriter),
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
		tell({kind: 'commit', ms});
	}
	wasSlow = isSlow;
});
