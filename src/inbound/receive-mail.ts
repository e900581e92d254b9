import type {SMTPServerDataStream} from 'smtp-server';
import type {MailShare} from './allowances.ts';
import type {MailBuffer} from './mail-buffer.ts';

type Refused = 'too_large' | 'too_many' | 'no_room';

export type Received =
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
