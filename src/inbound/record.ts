import type {Clock} from '../mail/clock.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import {storeTime} from '../mail/time.ts';
import type {Outbox} from '../outcome/outbox.ts';
import {createReportWrite, type ReportEffect} from '../outcome/reports.ts';
import type {Writer} from '../store/engine/writer.ts';
import {candidatesOf, type ReadingLinks} from './candidates.ts';
import type {TrustedReporter} from './trusted-reporter.ts';

export type RecordOptions = {
	readonly writer: Writer;
	readonly links: ReadingLinks;
	readonly outbox: Outbox;
	/** MAILCTL_RETENTION_DAYS as it is now. */
	readonly retentionDays: () => number;
	readonly trustedReporter: TrustedReporter;
	readonly clock: Pick<Clock, 'now'>;
};

export type RecordReading = (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<ReportEffect>;

/** Records what a mail says of our copies, and that it was read; resolves when that is on stable storage. */
export function createRecord(options: RecordOptions): RecordReading {
	const {writer, links, trustedReporter, clock} = options;
	const write = createReportWrite(options.outbox, {retentionDays: options.retentionDays});
	return async (cameIn, reading, raw) => {
		const candidates = candidatesOf(links, cameIn, reading);
		const reporter = candidates.length === 0 ? await trustedReporter(raw, reading) : null;
		return await writer.submit(write, {
			cameIn,
			size: raw.length,
			reading,
			candidates,
			reporter,
			at: storeTime(clock.now()),
		});
	};
}
