import {generateKeyPairSync} from 'node:crypto';
import test from 'ava';
import {dkimSign} from 'mailauth/lib/dkim/sign.js';
import {askDns} from '../../../src/inbound/dns-answers.ts';
import {KnownAnswers} from '../../../src/inbound/reports/known-answers.ts';
import {readInbound} from '../../../src/inbound/reports/read-inbound.ts';
import {missingAnswers} from '../../../src/inbound/reports/verdicts.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import {systemClocks} from '../../../src/kit/work-limit.ts';
import type {Envelope, Reading, StoredInbound} from '../../../src/mail/report.ts';
import type {DnsAnswer, Resolver} from '../../../src/net/dns.ts';
import {classify} from '../../helpers/classify.ts';
import {waitFor} from '../../helpers/wait.ts';

const {privateKey, publicKey} = generateKeyPairSync('rsa', {
	modulusLength: 2048,
	publicKeyEncoding: {type: 'spki', format: 'der'},
	privateKeyEncoding: {type: 'pkcs8', format: 'pem'},
});
const key = `v=DKIM1; p=${publicKey.toString('base64')}`;
const plain = 'From: Ada <ada@example.net>\r\nSubject: hello\r\n\r\nHello.\r\n';
const cameIn: StoredInbound = {
	...{id: 'i', digest: 'd', source: 'smtp', mailFrom: 'ada@example.net', rcptTo: [], receivedAt: '2026-11-27'},
	...{client: '192.0.2.7', helo: 'mx.example.net'},
};

/** TXT records by name; a lookup of `null` fails. */
function resolving(texts: Readonly<Record<string, string | null>>): Resolver {
	const none = async (): Promise<DnsAnswer<never>> => ({kind: 'nodata'});
	return {
		...{mx: none, a: none, aaaa: none, cname: none, ptr: none},
		async txt(name) {
			const text = texts[name];
			return text === undefined
				? {kind: 'nxdomain'}
				: text === null
					? {kind: 'failed', code: 'ETIMEOUT'}
					: {kind: 'found', records: [text]};
		},
	};
}

/** Makes the lookups as the daemon does, and judges the message as the reader's thread does. */
async function judged(
	mail: string | Buffer,
	texts: Readonly<Record<string, string | null>>,
	more: Partial<StoredInbound> = {},
) {
	const raw = Buffer.from(mail);
	const {verdicts} = await read(raw, resolving(texts), {...cameIn, ...more});
	return verdicts;
}

async function read(raw: Buffer, resolver: Resolver, envelope: Envelope): Promise<Reading> {
	const {known: answers, done} = asking(raw, resolver, envelope);
	await done;
	return await readInbound({raw, envelope, answers}, classify, systemClocks);
}

const asking = (raw: Buffer, resolver: Resolver, envelope: Envelope | null) =>
	askDns({
		resolver,
		clock: systemClock,
		missing: async known => missingAnswers(raw, envelope, new KnownAnswers(known)),
	});

async function signed(mail = plain): Promise<Buffer> {
	const data = {signingDomain: 'example.net', selector: 's', privateKey};
	const {signatures} = await dkimSign(mail, {...data, signTime: new Date(), signatureData: [data]});
	return Buffer.concat([Buffer.from(signatures), Buffer.from(mail)]);
}

const spf = {'example.net': 'v=spf1 ip4:192.0.2.7 -all'};
const dmarc = {'_dmarc.example.net': 'v=DMARC1; p=reject'};

test('passes a genuine message by whichever of SPF, DKIM and DMARC its domain has', async t => {
	const pass = {result: 'pass', domain: 'example.net'};
	const dkim = {'s._domainkey.example.net': key};
	t.deepEqual(await judged(await signed(), {...spf, ...dkim, ...dmarc}), {spf: pass, dkim: pass, dmarc: pass});
	t.like(await judged(await signed(), {...dkim, ...dmarc}), {spf: {result: 'none'}, dkim: pass, dmarc: pass});
	t.like(await judged(plain, {...spf, ...dmarc}), {dkim: {result: 'none', domain: null}, dmarc: pass});
});

test('fails a forged message', async t => {
	const dkim = {'s._domainkey.example.net': key};
	const changed = Buffer.from((await signed()).toString().replace('Hello.', 'Pay me.'));
	t.like(await judged(changed, {...spf, ...dkim, ...dmarc}, {client: '192.0.2.99'}), {
		...{spf: {result: 'fail'}, dkim: {result: 'neutral'}, dmarc: {result: 'fail', domain: 'example.net'}},
	});
	const other = {mailFrom: 'x@spammer.example'};
	const passes = {'spammer.example': 'v=spf1 +all', ...dmarc};
	t.like(await judged(plain, passes, other), {
		spf: {result: 'pass', domain: 'spammer.example'},
		dmarc: {result: 'fail', domain: 'example.net'},
	});
	const two = 'From: ada@example.net\r\nFrom: eve@spammer.example\r\n\r\n.';
	t.is((await judged(two, {...spf, ...passes}))?.dmarc.result, 'permerror');
});

test('discards all verdicts if an unsigned field precedes the signed one of the same name', async t => {
	const texts = {...spf, ...dmarc, 's._domainkey.example.net': key};
	for (const field of ['Subject: PAY', 'Content-Type: text/html', 'Date: now', 'To: x@y.example']) {
		const mail = await signed(`To: me@shop.example\r\nDate: then\r\nContent-Type: text/plain\r\n${plain}`);
		t.like(await judged(mail, texts), {dkim: {result: 'pass'}, dmarc: {result: 'pass'}});
		const forged = Buffer.concat([Buffer.from(`${field}\r\n`), mail]);
		t.like(await judged(forged, texts), {
			dkim: {result: 'policy', domain: 'example.net'},
			dmarc: {result: 'permerror', domain: 'example.net'},
		});
	}
});

test('returns a temporary error for all three verdicts if DNS does not respond', async t => {
	const silent = {'example.net': null, '_dmarc.example.net': null, 's._domainkey.example.net': null};
	t.deepEqual(await judged(await signed(), silent), {
		spf: {result: 'temperror', domain: 'example.net'},
		dkim: {result: 'temperror', domain: 'example.net'},
		dmarc: {result: 'temperror', domain: 'example.net'},
	});
	const broken = {...resolving({}), txt: () => Promise.reject(new Error('no DNS'))};
	t.like((await read(await signed(), broken, cameIn)).verdicts, {
		...{spf: {result: 'temperror'}, dkim: {result: 'temperror'}, dmarc: {result: 'temperror'}},
	});
});

test('treats an overlong record as a permanent error of its domain', async t => {
	const long = {
		...{'example.net': `v=spf1 ${'a '.repeat(2500)}`, '_dmarc.example.net': `v=DMARC1; p=none${';'.repeat(5000)}`},
		's._domainkey.example.net': `${key}; n=${'x'.repeat(5000)}`,
	};
	const permerror = {result: 'permerror', domain: 'example.net'};
	t.deepEqual(await judged(await signed(), long), {spf: permerror, dkim: permerror, dmarc: permerror});
});

test('makes all lookups for a message at once, and only looks up keys for a report', async t => {
	const asked: string[] = [];
	let answer = (): void => undefined;
	const answers = new Promise<DnsAnswer<string>>(resolve => {
		answer = () => resolve({kind: 'failed', code: 'ETIMEOUT'});
	});
	const txt = (name: string) => {
		asked.push(name);
		return answers;
	};
	const resolver = {...resolving({}), txt};
	const key = ['s._domainkey.example.net'];
	const keys = asking(await signed(), resolver, null);
	await waitFor('the key is asked', async () => asked.length === key.length);
	t.deepEqual(asked.splice(0), key);
	const from = 'From: "a@b" <ada@shop.example> (was eve@old.example)\r\n\r\n.';
	const all = asking(await signed(from), resolver, cameIn);
	const names = ['_dmarc.old.example', '_dmarc.shop.example', 'example.net', ...key];
	await waitFor('all are asked', async () => asked.length === names.length);
	t.deepEqual(asked.toSorted(), names);
	answer();
	await Promise.all([keys.done, all.done]);
});
