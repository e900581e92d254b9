import {randomBytes} from 'node:crypto';
import test, {type ExecutionContext} from 'ava';
import {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import type {StoredMail} from '../helpers/maildir.ts';
import {startDovecot} from '../helpers/peers/dovecot.ts';
import {startExim} from '../helpers/peers/exim.ts';
import {startOpenSmtpd} from '../helpers/peers/opensmtpd.ts';
import {startPostfix} from '../helpers/peers/postfix.ts';
import type {Receiver} from '../helpers/peers/receiver.ts';
import {eachOf, type Shop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Lab, startLab} from './interop-lab.ts';
import {checkLetter, checkSignatures} from './letters.ts';
import {makeOrders, type Order} from './orders.ts';

const domain = 'mail.example';
const hostname = `mx.${domain}`;
const unknown = `gone@${domain}`;
const full = `full@${domain}`;
const international = `zoë.müller@${domain}`;
const largest = 2_000_000;
const patience = 120_000;

/** Log lines of servers about clients that disconnect or talk out of turn. */
const bad =
	/lost connection|timeout|improper|TLS error|SSL_accept|unexpected disconnection|protocol (sync|error)|io-error/i;

type Peer = {
	readonly start: (t: ExecutionContext, addresses: readonly string[]) => Promise<Receiver | null>;
	readonly mails: number;
	/** The protocol in its Received header for a session with TLS. */
	readonly received: RegExp;
	/** Its refusal of an unknown address. */
	readonly refusal: RegExp;
	/** Its refusal of a message that is too large; null: it announces the limit in its EHLO. */
	readonly tooLarge: RegExp | null;
	/** Whether it accepts addresses in UTF-8. */
	readonly utf8: boolean;
	/** Its refusal of an address whose mailbox is full. */
	readonly full?: RegExp;
};

const localPart = (address: string) => address.slice(0, address.lastIndexOf('@'));
const postfix = {
	received: /by mx\.mail\.example \(Postfix\) with (UTF8SMTPS|ESMTPS) /,
	refusal: /550 5\.1\.1 <gone@mail\.example>: Recipient address rejected: User unknown in virtual mailbox table/,
};
const exim = {received: /with (utf8)?esmtps /, refusal: /550 Unrouteable address/};

const peers: Readonly<Record<string, Peer>> = {
	Postfix: {
		...postfix,
		mails: 60,
		tooLarge: null,
		utf8: true,
		start: (t, users) => startPostfix(t, {hostname, domains: [domain], users, largest}),
	},
	'Postfix that offers STARTTLS and nothing else': {
		...postfix,
		mails: 20,
		tooLarge: /552 5\.3\.4 Error: message file too big/,
		utf8: false,
		start: (t, users) =>
			startPostfix(t, {
				hostname,
				domains: [domain],
				users,
				largest,
				withheld: ['pipelining', 'chunking', 'size', 'dsn', '8bitmime', 'smtputf8', 'enhancedstatuscodes'],
			}),
	},
	'Postfix before Dovecot by LMTP': {
		...postfix,
		mails: 60,
		refusal: /550 5\.1\.1 .*undeliverable address: .* said: 550 5\.1\.1 .* User doesn't exist/s,
		full: /552 5\.2\.2 <full@mail\.example> Quota exceeded \(mailbox for user is full\)/,
		tooLarge: null,
		utf8: false,
		async start(t, users) {
			const store = await startDovecot(t, {hostname: 'store.mail.example', users, full: [full]});
			const front =
				store &&
				(await startPostfix(t, {
					hostname,
					domains: [domain],
					users,
					largest,
					store: {port: store.port, asks: [unknown, full]},
					withheld: ['smtputf8'],
				}));
			return store && front && {...front, count: store.count, mails: store.mails};
		},
	},
	Exim: {
		...exim,
		mails: 60,
		tooLarge: null,
		utf8: true,
		start: (t, users) => startExim(t, {hostname, domain, users: users.map(localPart), largest}),
	},
	'Exim without PIPELINING, CHUNKING and SMTPUTF8': {
		...exim,
		mails: 20,
		tooLarge: null,
		utf8: false,
		start: (t, users) =>
			startExim(t, {hostname, domain, users: users.map(localPart), largest, grouping: false, utf8: false}),
	},
	OpenSMTPD: {
		mails: 60,
		received: /\(OpenSMTPD\) with ESMTPS id /,
		refusal: /524 5\.2\.4 Mailing list expansion problem: <gone@mail\.example>/,
		tooLarge: null,
		utf8: false,
		start: (t, users) => startOpenSmtpd(t, {hostname, domain, users: users.map(localPart), largest}),
	},
};

for (const [name, peer] of Object.entries(peers)) {
	test.serial(`messages to ${name} arrive unchanged, and its refusals are understood`, async t => {
		const nobody: Shop = {from: '', key: '', templates: new Map(), dkim: {}};
		const addresses = makeOrders(nobody, peer.mails, [domain]).flatMap(({recipients}) => recipients);
		const receiver = await peer.start(t, [...addresses, ...(peer.utf8 ? [international] : [])]);
		if (!receiver) {
			return;
		}

		const lab = await startLab(t, receiver.port, {[domain]: '127.0.0.1'});
		await Promise.all([sendOrders(t, lab, peer, receiver), sendRefused(t, lab, peer)]);
		await sendInternational(t, lab, peer, receiver);
		t.is(await lab.daemon.stop(), 0);
		const complaints = (await receiver.log()).split('\n').filter(line => bad.test(line));
		t.deepEqual(complaints, [], 'the server has nothing to complain of');
	});
}

async function sendOrders(t: ExecutionContext, lab: Lab, peer: Peer, receiver: Receiver): Promise<void> {
	const orders = makeOrders(lab.shop, peer.mails, [domain]).map(withExtremes);
	const ids: string[] = [];
	await eachOf(orders, 8, async ({send}) => void ids.push(await lab.send(send)));
	const recipients = orders.flatMap(order => order.recipients);
	await waitFor('every copy is stored', async () => (await receiver.count()) >= recipients.length, patience);
	const stored = await receiver.mails();
	t.deepEqual(stored.map(({deliveredTo}) => deliveredTo).sort(), recipients.sort(), 'each copy once, nothing else');
	t.true(
		stored.every(({received}) => peer.received.test(received.at(-1) ?? '')),
		`with TLS: ${stored[0]?.received}`,
	);
	const byRecipient = new Map(stored.map(mail => [mail.deliveredTo, mail]));
	for (const order of orders) {
		for (const recipient of order.recipients) {
			await checkLetter(t, order, byRecipient.get(recipient));
		}
	}

	await checkSignatures(t, lab.shop, stored);
	await checkWithMailauth(t, lab.shop, stored);
	await eachOf(ids, 4, id => lab.untilStatus(id, 'delivered'));
	const shown = await lab.show(ids[0] ?? '');
	for (const {attempts, state} of shown.recipients) {
		t.is(state, 'delivered');
		t.is(attempts.length, 1);
		t.like(attempts[0], {host: hostname, ip: '127.0.0.1', phase: 'dot', code: 250});
		t.regex(attempts[0]?.tls ?? '', /^TLSv1\.[23] \S+ unverified$/);
	}
}

/**
 * Cases missing in the usual orders: an attachment of maximum size, endless lines, blank lines at the end.
 */
function withExtremes(order: Order, index: number): Order {
	const {data, ...send} = order.send as {data: {customer: {name: string}}};
	if (index === 1) {
		const file = {filename: 'large.bin', contentType: 'application/octet-stream', content: randomBytes(900 * 1024)};
		const attachment = {...file, content: file.content.toString('base64')};
		return {...order, attachments: [file], send: {...order.send, attachments: [attachment]}};
	}

	const name = `${'.'.repeat(100)}${'long'.repeat(1000)}\n.\n..\n\n\n\n`;
	return index === 3 ? {...order, send: {...send, data: {...data, customer: {name}}}} : order;
}

async function checkWithMailauth(t: ExecutionContext, {dkim}: Shop, stored: readonly StoredMail[]): Promise<void> {
	const resolver = async (name: string) => [(dkim[name] ?? '').match(/.{1,255}/g) ?? []];
	for (const {bytes} of stored) {
		const {results} = await dkimVerify(bytes, {resolver});
		t.deepEqual(
			results.map(({status}) => status.result),
			['pass', 'pass'],
		);
	}
}

async function sendRefused(t: ExecutionContext, lab: Lab, peer: Peer): Promise<void> {
	await checkBounce(t, lab, unknown, {
		reply: peer.refusal,
		phase: 'rcpt',
		category: 'unknown_user',
		suppresses: true,
	});
	if (peer.full) {
		await checkBounce(t, lab, full, {reply: peer.full, phase: 'rcpt', category: 'mailbox_full', suppresses: false});
	}

	const attachment = {filename: 'a.bin', contentType: 'application/octet-stream', content: randomBytes(1_000_000)};
	const attachments = [attachment, attachment].map(file => ({...file, content: file.content.toString('base64')}));
	await checkBounce(
		t,
		lab,
		`user0@${domain}`,
		{
			reply: peer.tooLarge ?? /the mail server accepts 2000000 octets, the message has/,
			phase: peer.tooLarge ? 'dot' : 'ehlo',
			category: 'too_big',
			suppresses: false,
		},
		{attachments},
	);
}

type Expected = {
	readonly reply: RegExp;
	readonly phase: string;
	readonly category: string;
	readonly suppresses: boolean;
};

async function checkBounce(
	t: ExecutionContext,
	lab: Lab,
	to: string,
	{reply, phase, category, suppresses}: Expected,
	more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
	const id = await lab.send({...lab.letter(to), ...more});
	await lab.untilStatus(id, 'bounced');
	const {recipients, events} = await lab.show(id);
	const attempt = recipients[0]?.attempts.at(-1);
	t.is(attempt?.phase, phase);
	t.regex(`${attempt?.code ?? ''} ${attempt?.reply}`, reply);
	const bounced = events.find(({type}) => type === 'bounced');
	t.is(bounced?.detail.category, category);
	t.is(await lab.isSuppressed(to), suppresses, `${to} is suppressed`);
}

/** RFC 6531 §3.2: an address in UTF-8 goes to a server that offers SMTPUTF8, and to no other. */
async function sendInternational(t: ExecutionContext, lab: Lab, peer: Peer, receiver: Receiver): Promise<void> {
	if (!peer.utf8) {
		const expected = {phase: 'ehlo', category: 'protocol', suppresses: false};
		await checkBounce(t, lab, international, {...expected, reply: /does not offer SMTPUTF8/});
		return;
	}

	const before = await receiver.count();
	const id = await lab.send(lab.letter(international));
	await lab.untilStatus(id, 'delivered');
	await waitFor('it is stored', async () => (await receiver.count()) === before + 1);
	const stored = (await receiver.mails()).filter(mail => mail.bytes.includes(international));
	t.is(stored.length, 1);
	await checkWithMailauth(t, lab.shop, stored);
}
