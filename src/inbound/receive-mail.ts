import type {SMTPServerDataStream} from 'smtp-server';
import type {MailShare} from './allowances.ts';

/** Octets that all mails of a listener may still hold together, beyond what each may hold anyway. */
export type HeldBytes = {free: number};

/** What every mail may hold without asking: nearly all reports are smaller. */
const small = 256 * 1024;
const first = 8 * 1024;

/**
 * The bytes of a mail that is coming in. They are copied together: a hostile client sends ten million chunks of one byte.
 */
export class MailBuffer {
	readonly #held: HeldBytes;
	#buffer = Buffer.alloc(0);
	#length = 0;
	#taken = 0;

	constructor(held: HeldBytes) {
		this.#held = held;
	}

	/** False if there is no space for it. */
	add(chunk: Buffer): boolean {
		const length = this.#length + chunk.length;
		if (length > this.#buffer.length && !this.#grow(length)) {
			return false;
		}
		this.#length += chunk.copy(this.#buffer, this.#length);
		return true;
	}

	#grow(wanted: number): boolean {
		const {length} = this.#buffer;
		const size = Math.max(first, wanted, Math.min(2 * length, length + 1024 * 1024));
		const beyond = Math.max(0, size - small - this.#taken);
		if (beyond > this.#held.free) {
			return false;
		}
		this.#held.free -= beyond;
		this.#taken += beyond;
		const larger = Buffer.allocUnsafeSlow(size);
		this.#buffer.copy(larger, 0, 0, this.#length);
		this.#buffer = larger;
		return true;
	}

	bytes(): Buffer {
		return this.#buffer.subarray(0, this.#length);
	}

	/** Other mails may hold what it held. */
	release(): void {
		this.#held.free += this.#taken;
		this.#taken = 0;
		this.#length = 0;
		this.#buffer = Buffer.alloc(0);
	}
}

export type Refused = 'too_large' | 'too_many' | 'no_room';

type Received =
	/** The bytes are in the buffer. */
	| {readonly kind: 'whole'; readonly share: MailShare}
	| {readonly kind: 'refused'; readonly reason: Refused}
	/** The client went away. */
	| {readonly kind: 'lost'};

/**
 * Reads a mail to its end. Its bytes are kept while there is room for them and the allowance lasts; they count as they
 * arrive, so that sessions beside each other cannot take the same bytes. What is not kept does not count.
 */
export async function receiveMail(
	stream: SMTPServerDataStream,
	buffer: MailBuffer,
	share: MailShare | null,
): Promise<Received> {
	const received = await new Promise<Received>(resolve => {
		let reason: Refused | null = share === null ? 'too_many' : null;
		stream.on('data', (chunk: Buffer) => {
			reason ??= stream.sizeExceeded ? 'too_large' : null;
			reason ??= share?.add(chunk.length) ? null : 'too_many';
			reason ??= buffer.add(chunk) ? null : 'no_room';
			if (reason !== null) {
				buffer.release();
			}
		});
		stream.on('end', () => {
			reason = stream.sizeExceeded ? 'too_large' : reason;
			resolve(
				share !== null && reason === null ? {kind: 'whole', share} : {kind: 'refused', reason: reason ?? 'too_many'},
			);
		});
		// The stream may have ended before there was a listener.
		stream.on('error', () => resolve({kind: 'lost'}));
		stream.on('close', () => resolve({kind: 'lost'}));
		if (stream.destroyed) {
			resolve({kind: 'lost'});
		}
	});
	if (received.kind !== 'whole') {
		share?.giveBack();
		buffer.release();
	}
	return received;
}

const mostReceived = 25;
/** A header is looked at so far. */
const longestHeader = 256 * 1024;

/**
 * Whether a mail goes round in circles: more trace fields than any route has (RFC 5321 §6.3), or an `X-Loop` with one of our
 * names.
 */
export function isLooping(raw: Buffer, ourNames: readonly string[]): boolean {
	const header = headerOf(raw);
	if ((header.match(/^received:/gim)?.length ?? 0) > mostReceived) {
		return true;
	}
	const loops = header.match(/^x-loop:.*$/gim) ?? [];
	return loops.some(field =>
		field
			.toLowerCase()
			.split(/[\s:;,<>@]+/)
			.some(word => ourNames.includes(word)),
	);
}

function headerOf(raw: Buffer): string {
	const text = raw.toString('latin1', 0, longestHeader);
	const end = text.search(/\r?\n\r?\n/);
	return end === -1 ? text : text.slice(0, end + 1);
}
