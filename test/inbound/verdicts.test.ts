import {generateKeyPairSync} from 'node:crypto';
import test from 'ava';
import {dkimSign} from 'mailauth/lib/dkim/sign.js';
import {askAhead, keysOf, verdictsOf} from '../../src/inbound/verdicts.ts';
import {unreadLetter} from '../../src/mail/received.ts';
import type {CameIn} from '../../src/mail/report.ts';
import type {DnsAnswer, Resolver} from '../../src/net/dns.ts';
import {readLetter} from '../../src/report/letter.ts';
import {waitFor} from '../helpers/wait.ts';

const {privateKey, publicKey} = generateKeyPairSync('rsa', {
	modulusLength: 2048,
	publicKeyEncoding: {type: 'spki', format: 'der'},
	privateKeyEncoding: {type: 'pkcs8', format: 'pem'},
});
const key = `v=DKIM1; p=${publicKey.toString('base64')}`;
const plain = 'From: Ada <ada@example.net>\r\nSubject: hello\r\n\r\nHello.\r\n';
const cameIn: CameIn = {
	...{id: 'i', digest: 'd', source: 'smtp', mailFrom: 'ada@example.net', rcptTo: [], receivedAt: '2026-11-27'},
	...{client: '192.0.2.7', helo: 'mx.example.net'},
};

/** Texts by name; a null fails. */
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

async function judged(
	mail: string | Buffer,
	texts: Readonly<Record<string, string | null>>,
	more: Partial<CameIn> = {},
) {
	const raw = Buffer.from(mail);
	const resolver = resolving(texts);
	const letter = await readLetter(raw, await keysOf(raw, resolver));
	return await verdictsOf({resolver, hostname: 'mail.test'}, {...cameIn, ...more}, letter);
}

async function signed(mail = plain): Promise<Buffer> {
	const data = {signingDomain: 'example.net', selector: 's', privateKey};
	const {signatures} = await dkimSign(mail, {...data, signTime: new Date(), signatureData: [data]});
	return Buffer.concat([Buffer.from(signatures), Buffer.from(mail)]);
}

const spf = {'example.net': 'v=spf1 ip4:192.0.2.7 -all'};
const dmarc = {'_dmarc.example.net': 'v=DMARC1; p=reject'};

test('a mail that is what it says passes all three, whichever of them is there', async t => {
	const pass = {result: 'pass', domain: 'example.net'};
	const dkim = {'s._domainkey.example.net': key};
	t.deepEqual(await judged(await signed(), {...spf, ...dkim, ...dmarc}), {spf: pass, dkim: pass, dmarc: pass});
	t.like(await judged(await signed(), {...dkim, ...dmarc}), {spf: {result: 'none'}, dkim: pass, dmarc: pass});
	t.like(await judged(plain, {...spf, ...dmarc}), {dkim: {result: 'none', domain: null}, dmarc: pass});
});

test('a mail that is not what it says fails', async t => {
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
	t.is((await judged(two, {...spf, ...passes})).dmarc.result, 'permerror');
});

test('a field before the signed one of its name, which people would see, makes all verdicts void', async t => {
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

test('DNS that does not answer is no verdict, and blocks nothing', async t => {
	const silent = {'example.net': null, '_dmarc.example.net': null, 's._domainkey.example.net': null};
	t.deepEqual(await judged(await signed(), silent), {
		spf: {result: 'temperror', domain: 'example.net'},
		dkim: {result: 'temperror', domain: 'example.net'},
		dmarc: {result: 'temperror', domain: 'example.net'},
	});
	const broken = {...resolving({}), txt: () => Promise.reject(new Error('no DNS'))};
	const {spf: result} = await verdictsOf({resolver: broken, hostname: 'mail.test'}, cameIn, unreadLetter('x'));
	t.is(result.result, 'temperror');
	t.deepEqual(await keysOf(await signed(), broken), [['s._domainkey.example.net', 'ETIMEOUT']]);
});

test('all that a mail needs of DNS is asked at once, of reports the keys alone', async t => {
	const asked: string[] = [];
	let answer = (): void => undefined;
	const answers = new Promise<DnsAnswer<string>>(resolve => {
		answer = () => resolve({kind: 'failed', code: 'ETIMEOUT'});
	});
	const txt = (name: string) => {
		asked.push(name);
		return answers;
	};
	const options = {resolver: {...resolving({}), txt}, hostname: 'mail.test'};
	const key = ['s._domainkey.example.net'];
	const keys = askAhead(options, await signed(), null);
	t.deepEqual(asked.splice(0), key);
	const all = askAhead(options, await signed('From: "a@b" <ada@shop.example>\r\n\r\n.'), cameIn);
	const names = ['_dmarc.shop.example', 'example.net', ...key];
	await waitFor('all are asked', async () => asked.length === names.length);
	t.deepEqual(asked.toSorted(), names);
	answer();
	await Promise.all([keys, all]);
});

test('signatures that would cost too much are not verified', async t => {
	const resolver = resolving({'s._domainkey.example.net': key});
	const field = 'DKIM-Signature: v=1; d=example.net; s=s; b=x\r\n';
	t.is((await keysOf(Buffer.from(field + plain), resolver)).length, 1);
	for (const mail of [
		field.repeat(6) + plain,
		field.replace('b=x', `b=${'x'.repeat(5000)}`) + plain,
		`${field}\r\n${'\r\n'.repeat(300_000)}`,
	]) {
		t.deepEqual(await keysOf(Buffer.from(mail), resolver), []);
	}
});
