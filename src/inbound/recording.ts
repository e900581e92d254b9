import type {Clock} from '../mail/clock.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import {storeTime} from '../mail/time.ts';
import type {ReadMail, ReportEffect} from '../outcome/reports.ts';
import type {GroupWrite, Writer} from '../store/writer.ts';
import {candidatesOf, type ReadingLinks} from './candidates.ts';
import type {TrustedReporter} from './trusted-reporter.ts';

export type RecordingOptions = {
	readonly writer: Pick<Writer, 'submit'>;
	readonly write: GroupWrite<ReadMail, ReportEffect>;
	readonly links: ReadingLinks;
	readonly trustedReporter: TrustedReporter;
	readonly clock: Pick<Clock, 'now'>;
};

/** Records a mail that was read: looks for the copies that it may be about, and lets it take effect. */
export type RecordMail = (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<ReportEffect>;

export function createRecording({writer, write, links, trustedReporter, clock}: RecordingOptions): RecordMail {
	return async (cameIn, reading, raw) => {
		const candidates = candidatesOf(links, cameIn, reading);
		const reporter = candidates.length === 0 ? await trustedReporter(raw, reading) : null;
		return await writer.submit(write, {cameIn, reading, candidates, reporter, at: storeTime(clock.now())});
	};
}
