import type {Clock} from '../mail/clock.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import {storeTime} from '../mail/time.ts';
import type {Outbox} from '../outcome/outbox.ts';
import {createReportWrite, type ReportEffect} from '../outcome/reports.ts';
import type {Writer} from '../store/writer.ts';
import {candidatesOf, type ReadingLinks} from './candidates.ts';

export type RecordOptions = {
	readonly writer: Writer;
	readonly links: ReadingLinks;
	readonly outbox: Outbox;
	/** MAILCTL_RETENTION_DAYS as it is now. */
	readonly retentionDays: () => number;
	readonly clock: Pick<Clock, 'now'>;
};

export type RecordReading = (cameIn: CameIn, reading: Reading) => Promise<ReportEffect>;

/** Records what a mail says of our copies, and that it was read; resolves when that is on stable storage. */
export function createRecord({writer, links, outbox, retentionDays, clock}: RecordOptions): RecordReading {
	const write = createReportWrite(outbox, {retentionDays});
	return async (cameIn, reading) =>
		await writer.submit(write, {
			cameIn,
			reading,
			candidates: candidatesOf(links, cameIn, reading),
			at: storeTime(clock.now()),
		});
}
