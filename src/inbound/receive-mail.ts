import type {SMTPServerDataStream} from 'smtp-server';
import type {MailShare} from './allowances.ts';

/** Bytes that all mails on their way in may hold together beyond what each may hold anyway. */
type Capacity = {
	readonly take: (bytes: number) => boolean;
	readonly giveBack: (bytes: number) => void;
};

export function createCapacity(bytes: number): Capacity {
	let free = bytes;
	return {
		take(wanted) {
			if (wanted > free) {
				return false;
			}
			free -= wanted;
			return true;
		},
		giveBack(taken) {
			free += taken;
		},
	};
}

/** What every mail may hold without asking: nearly all reports are smaller. */
const small = 256 * 1024;
const first = 8 * 1024;

/**
 * The bytes of a mail that is coming in. They are copied together: a hostile client sends ten million chunks of one byte.
 */
export function createMailBuffer(room: Capacity) {
	let buffer = Buffer.alloc(0);
	let length = 0;
	let taken = 0;

	function grow(wanted: number): boolean {
		const size = Math.max(first, wanted, Math.min(2 * buffer.length, buffer.length + 1024 * 1024));
		const beyond = Math.max(0, size - small) - taken;
		if (beyond > 0 && !room.take(beyond)) {
			return false;
		}
		taken += Math.max(0, beyond);
		const larger = Buffer.allocUnsafeSlow(size);
		buffer.copy(larger, 0, 0, length);
		buffer = larger;
		return true;
	}

	return {
		/** False: there is no room for it. */
		add(chunk: Buffer): boolean {
			if (length + chunk.length > buffer.length && !grow(length + chunk.length)) {
				return false;
			}
			length += chunk.copy(buffer, length);
			return true;
		},
		bytes: (): Buffer => buffer.subarray(0, length),
		/** Its room is others' again. */
		release(): void {
			room.giveBack(taken);
			taken = 0;
			length = 0;
			buffer = Buffer.alloc(0);
		},
	};
}

type MailBuffer = ReturnType<typeof createMailBuffer>;

type Refused = 'too_large' | 'too_many' | 'no_room';

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
		// Without an error where nobody listened for one yet.
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
 * Whether a mail goes round in circles: more trace fields than any way has (RFC 5321 §6.3), or an `X-Loop` with one of our
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
