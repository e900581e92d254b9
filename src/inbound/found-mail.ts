import type {InboundSource} from '../mail/report.ts';

/** A mail that lies in a mailbox or a file. */
export type FoundMail = {
	readonly source: InboundSource;
	/** As it is to be taken in: with the line ends of the wire, and cut where it is larger than `longestMail`. */
	readonly raw: Buffer;
	/** The envelope's sender, empty for `<>`, as the server that put the mail there wrote it down; null: it did not. */
	readonly mailFrom: string | null;
	/** Whether only its beginning is there. */
	readonly cut: boolean;
};

/** The largest mail that is taken whole, octets: the listener's limit too. */
export const longestMail = 10 * 1024 * 1024;

/**
 * What is read of a larger one. A report begins with its own words and returns the mail last, so its beginning says all; the
 * rest would only fill the store.
 */
const partOfLarger = 1024 * 1024;

/** A mail of a mailbox or a file: `bytes` are its first `longestMail` octets at least, `size` is the size of the whole. */
export function foundMail(source: InboundSource, bytes: Buffer, size: number): FoundMail {
	const cut = size > longestMail;
	const raw = wireForm(cut ? bytes.subarray(0, partOfLarger) : bytes);
	return {source, raw, mailFrom: returnPathOf(raw), cut};
}

/** Return-Path is among the first fields (RFC 5321 §4.4). */
const longestTrace = 16 * 1024;

function returnPathOf(raw: Buffer): string | null {
	const [header = ''] = raw.toString('latin1', 0, longestTrace).split('\r\n\r\n', 1);
	return /^return-path:[ \t]*<([^<>\r\n]*)>/im.exec(header)?.[1] ?? null;
}

const [lf, cr] = [0x0a, 0x0d];

/**
 * A stored mail as it went over the wire: each line ends with CRLF, the last one too. So the same mail has the same digest
 * wherever it lay. A lone CR stays as it is.
 */
export function wireForm(stored: Buffer): Buffer {
	const bare = bareLineFeeds(stored);
	const ended = stored.length === 0 || stored.at(-1) === lf;
	if (bare === 0 && ended) {
		return stored;
	}
	const wire = Buffer.allocUnsafe(stored.length + bare + (ended ? 0 : 2));
	let at = 0;
	for (let i = 0; i < stored.length; i++) {
		const byte = stored[i] as number;
		if (byte === lf && stored[i - 1] !== cr) {
			wire[at++] = cr;
		}
		wire[at++] = byte;
	}
	if (!ended) {
		wire[at++] = cr;
		wire[at++] = lf;
	}
	return wire;
}

function bareLineFeeds(stored: Buffer): number {
	let count = 0;
	// A search for each of millions of them takes five times as long.
	for (let at = 0; at < stored.length; at++) {
		count += stored[at] === lf && stored[at - 1] !== cr ? 1 : 0;
	}
	return count;
}
