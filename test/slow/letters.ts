import {createHash} from 'node:crypto';
import type {ExecutionContext} from 'ava';
import {type AddressObject, simpleParser} from 'mailparser';
import {verifyWithDkimpy} from '../helpers/dkimpy.ts';
import type {StoredMail} from '../helpers/maildir.ts';
import type {Shop} from '../helpers/shop.ts';
import type {Order} from './orders.ts';

const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Reads one delivered message as a mail client would. Returns its Message-ID. */
export async function checkLetter(t: ExecutionContext, order: Order, mail: StoredMail | undefined): Promise<string> {
	const bytes = mail?.bytes ?? Buffer.alloc(0);
	t.notRegex(bytes.toString('latin1'), /[^\r\n]{999}|[^\x00-\x7f]/, 'seven bits, no line over 998 octets');
	const letter = await simpleParser(bytes);
	t.is(letter.subject, order.subject);
	t.is(letter.from?.value[0]?.address, 'no-reply@shop.example');
	t.is(letter.from?.value[0]?.name, 'Kaffee & Größe');
	t.deepEqual(addresses(letter.to), [order.to]);
	t.deepEqual(addresses(letter.cc), order.cc);
	t.true(typeof letter.html === 'string' && letter.html.includes(`${order.number}`), order.number);
	t.true(letter.text?.includes(order.number), order.number);
	t.true(order.text === null || letter.text?.startsWith(order.text), `${order.number}: ${letter.text}`);
	t.deepEqual(
		letter.attachments.map(({filename, contentType, content}) => ({filename, contentType, content: hash(content)})),
		order.attachments.map(file => ({...file, content: hash(file.content)})),
	);
	const list = letter.headers.get('list') as {unsubscribe?: {url?: string}; 'unsubscribe-post'?: {name?: string}};
	t.regex(list.unsubscribe?.url ?? '', /^https:\/\/mail\.shop\.example\/unsubscribe\?token=/);
	t.is(list['unsubscribe-post']?.name, 'List-Unsubscribe=One-Click');
	return letter.messageId ?? '';
}

/** Addresses as people write them; mailparser leaves A-labels. */
function addresses(header: AddressObject | AddressObject[] | undefined): string[] {
	return [header ?? []].flat().flatMap(({value}) => value.map(({address}) => address ?? ''));
}

/** Verifies both signatures of every delivered message with dkimpy, and checks what they cover. */
export async function checkSignatures(t: ExecutionContext, shop: Shop, stored: readonly StoredMail[]): Promise<void> {
	const bytes = stored.map(mail => mail.bytes);
	const verified = await verifyWithDkimpy(t, bytes, shop.dkim);
	for (const signatures of verified ?? []) {
		t.deepEqual(signatures.map(({algorithm}) => algorithm).sort(), ['ed25519-sha256', 'rsa-sha256']);
		for (const {valid, error, domain, headers} of signatures) {
			t.true(valid, error ?? '');
			t.is(domain, 'shop.example');
			t.is(headers.filter(name => name === 'from').length, 2, 'From cannot be added again');
			t.true(
				headers.includes('list-unsubscribe') && headers.includes('list-unsubscribe-post'),
				'RFC 8058 section 4',
			);
		}
	}
}
