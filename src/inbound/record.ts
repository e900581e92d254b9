import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Links} from '../links/links.ts';
import type {SignedId} from '../links/signed-id.ts';
import type {CameIn, Candidate, Reading, Via} from '../mail/report.ts';
import {isOfNobody} from '../outcome/matches.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {createReportWrite, type ReportEffect} from '../outcome/reports.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {TrustedReporter} from './trusted-reporter.ts';

type RecordOptions = {
	readonly writer: Writer;
	readonly links: ReadingLinks;
	readonly eventWriter: EventWriter;
	/** MAILCTL_RETENTION_DAYS as it is now. */
	readonly retentionDays: () => number;
	readonly trustedReporter: TrustedReporter;
	readonly clock: Pick<Clock, 'now'>;
};

type RecordReading = (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<ReportEffect>;

/** Records what a mail says of our copies, and that it was read; resolves when that is on stable storage. */
export function createRecord(options: RecordOptions): RecordReading {
	const {writer, links, trustedReporter, clock} = options;
	const write = createReportWrite(options.eventWriter, {retentionDays: options.retentionDays});
	return async (cameIn, reading, raw) => {
		const candidates = candidatesOf(links, cameIn, reading);
		const reporter = candidates.length === 0 && !reading.forwarded ? await trustedReporter(raw, reading) : null;
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

type ReadingLinks = Pick<Links, 'readReturnPath' | 'readUnsubscribeLocal' | 'readRef' | 'readMessageIdLocal'>;

/** So many texts of one kind are looked at: a mail may hold as many as it likes. */
const mostTexts = 50;

/**
 * Whose copy a mail that came in may be about, best first (R3.14, R3.19). A candidate proves nothing until its
 * `verify` is asked with the address of its row.
 */
export function candidatesOf(links: ReadingLinks, cameIn: CameIn, reading: Reading): Candidate[] {
	const {clues} = reading;
	const rcptTo = reading.forwarded ? [] : cameIn.rcptTo;
	const toUnsubscribe = (via: Via) =>
		signed(via, [...rcptTo, ...clues.addressees].map(localPart), links.readUnsubscribeLocal);
	const asks = asksToUnsubscribe(cameIn, reading);
	return [
		...(asks ? toUnsubscribe('unsubscribe_mail') : []),
		...signed('return_path', rcptTo.map(localPart), links.readReturnPath),
		...signed('addressee', clues.addressees.map(localPart), links.readReturnPath),
		...signed('mail_from', clues.returnPaths.map(localPart), links.readReturnPath),
		...signed('envelope_id', clues.envelopeIds, links.readRef),
		...signed('ref', clues.refs, links.readRef),
		...ofMessageIds(clues.messageIds.map(localPart), links.readMessageIdLocal),
		...signed('unsubscribe_address', clues.unsubscribeAddresses.map(localPart), links.readUnsubscribeLocal),
		...(asks ? [] : toUnsubscribe('unsubscribe_address')),
	];
}

/** Whether a mail to an unsubscribe address is a request (R3.21): reports and auto-replies are none. */
function asksToUnsubscribe(cameIn: CameIn, reading: Reading): boolean {
	return reading.kind === 'other' && !isOfNobody({cameIn, reading});
}

function signed(via: Via, texts: readonly string[], read: (text: string) => SignedId | null): Candidate[] {
	return distinct(texts).flatMap(text => {
		const found = read(text);
		return found === null ? [] : [{...found, via}];
	});
}

/** Its token says by itself whether it is right. */
function ofMessageIds(locals: readonly string[], read: (local: string) => string | null): Candidate[] {
	return distinct(locals).flatMap(local => {
		const id = read(local);
		return id === null ? [] : [{via: 'message_id', id, verify: () => true}];
	});
}

function distinct(texts: readonly string[]): string[] {
	return [...new Set(texts.slice(0, mostTexts))];
}

/** What stands before the `@`, without the angle bracket that some leave there. */
function localPart(address: string): string {
	return address.slice(address.startsWith('<') ? 1 : 0, Math.max(address.lastIndexOf('@'), 0));
}
