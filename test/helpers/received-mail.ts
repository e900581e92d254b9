import {createHash} from 'node:crypto';
import {storeTime} from '../../src/kit/time.ts';
import type {NewId} from '../../src/mail/ids.ts';
import {insertReceived, type NewReceived} from '../../src/resources/received/store.ts';
import type {Store} from '../../src/store/store.ts';

const verdict = {result: 'pass', domain: 'example.net'};
const raw = [
	'From: Ada <ada@example.net>',
	'Subject: secret answer',
	'MIME-Version: 1.0',
	'Content-Type: text/html',
	'',
	'<p style="color: teal">Thank you!</p>',
	'',
].join('\r\n');

/** Puts a mail into the store as a workspace received it; answers its id. */
export async function insertReceivedMail(
	store: Pick<Store, 'writer'>,
	newId: NewId,
	workspaceId: string,
	more: Partial<NewReceived> = {},
): Promise<string> {
	const id = newId('rcv');
	const mail: NewReceived = {
		...{id, workspaceId, inReplyTo: null, fault: null, receivedAt: storeTime(Date.now())},
		inboundId: createHash('sha256').update(id).digest('hex'),
		summary: {
			...{spf: verdict, dkim: verdict, dmarc: verdict, automatic: false},
			from: {address: 'ada@example.net', name: 'Ada secret'},
			...{recipients: ['support@in.example.com'], mailFrom: 'ada@example.net', subject: 'secret answer'},
			files: ['one', 'two'].map(name => ({name: `${name}.png`, type: 'image/png', size: 3, contentId: null})),
		},
		content: {
			text: null,
			html: '<p>Thank you!</p>',
			cut: false,
			headers: [{name: 'subject', value: 'secret answer'}],
		},
		files: [Buffer.from('png'), Buffer.from('gif')],
		terms: ['from:ada@example.net', 'to:support@in.example.com', 'w:secret', 'w:answer'],
		raw: Buffer.from(raw),
		...more,
	};
	await store.writer.transaction(trx => insertReceived(trx, [mail]));
	return id;
}
