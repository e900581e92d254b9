import {createHash} from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import {createCompose} from '../../src/compose/compose.ts';
import {dkimRecordValue, generateSigningKeys, importSigningKey, signatureOf} from '../../src/compose/dkim.ts';
import {relaxedHeader, withoutLastLines, writeRelaxed} from '../../src/mail/dkim-canonical.ts';
import {anyLetter} from './any-letter.ts';
import {answer, international, invoice, note, pictured, receipt} from './letters.ts';
import {headerLines} from './read.ts';
import {rfc8463} from './rfc8463.ts';

const compose = createCompose();
const now = Date.UTC(2026, 5, 9, 10, 15, 31, 999);
const pems = await generateSigningKeys();
const domain = 'shop.example';
const rsa = importSigningKey({domain, selector: 'mc1', algorithm: 'rsa-sha256', privateKeyPem: pems.rsa});
const ed25519 = importSigningKey({domain, selector: 'mc2', algorithm: 'ed25519-sha256', privateKeyPem: pems.ed25519});
const records: Record<string, string> = {
	'mc1._domainkey.shop.example': dkimRecordValue(pems.rsa),
	'mc2._domainkey.shop.example': dkimRecordValue(pems.ed25519),
};

function relaxedBody(text: string): string {
	const output = Buffer.alloc(text.length);
	return withoutLastLines(output.subarray(0, writeRelaxed(Buffer.from(text), output, 0))).toString();
}

/** Returns the verdict of mailauth on each signature, such as `mc1: pass`. */
async function verify(mail: Buffer): Promise<string[]> {
	const {results} = await dkimVerify(mail, {
		resolver: async name => {
			const value = records[name];
			if (!value) {
				throw Object.assign(new Error('No such record'), {code: 'ENOTFOUND'});
			}
			return [value.match(/.{1,255}/g) ?? []];
		},
	});
	return results.map(({selector, status}) => `${selector}: ${status.result}`);
}

for (const kind of ['ed25519', 'rsa'] as const) {
	test(`RFC 8463 Appendix A: ${kind}`, t => {
		const {privateKeyPem, field, signature, record} = rfc8463[kind];
		const key = importSigningKey({
			domain: 'football.example.com',
			selector: 'x',
			algorithm: `${kind}-sha256`,
			privateKeyPem,
		});
		const header = rfc8463.fields.map(relaxedHeader).join('') + relaxedHeader(field).slice(0, -2);
		t.is(signatureOf(key, header), signature);
		t.is(dkimRecordValue(privateKeyPem), record);
	});
}

test('RFC 8463 Appendix A: the body hash', t => {
	t.is(createHash('sha256').update(relaxedBody(rfc8463.body)).digest('base64'), rfc8463.bodyHash);
});

test('RFC 6376 §3.4.5: the example in relaxed form', t => {
	t.is(['A: X', 'B : Y\t\r\n\tZ  '].map(relaxedHeader).join(''), 'a:X\r\nb:Y Z\r\n');
	t.is(relaxedBody(' C \r\nD \t E\r\n\r\n\r\n'), ' C\r\nD E\r\n');
});

for (const [body, relaxed] of [
	['', ''],
	['\r\n', ''],
	['\r\n \r\n\t\r\n', ''],
	['a\r\n', 'a\r\n'],
	['a \r\n', 'a\r\n'],
	['a\r\n b\r\n', 'a\r\n b\r\n'],
	['\r\n\r\na\r\n\r\n', '\r\n\r\na\r\n'],
	[' \t a\t\tb \r\n', ' a b\r\n'],
] as const) {
	test(`relaxes the body ${JSON.stringify(body)}`, t => {
		t.is(relaxedBody(body), relaxed);
	});
}

test('relaxes a body as the rules do when applied one by one', t => {
	fc.assert(
		fc.property(fc.array(fc.constantFrom('a', '=', ' ', '\t', '\r\n'), {maxLength: 40}), pieces => {
			const body = `${pieces.join('')}\r\n`;
			const lines = body.split('\r\n').map(line => line.replaceAll(/[ \t]+$/g, '').replaceAll(/[ \t]+/g, ' '));
			while (lines.at(-1) === '') {
				lines.pop();
			}
			t.is(relaxedBody(body), lines.map(line => `${line}\r\n`).join(''));
		}),
	);
});

for (const [name, letter] of Object.entries({receipt, note, invoice, international, answer, pictured})) {
	test(`mailauth accepts both signatures of ${name}`, async t => {
		t.deepEqual(await verify(compose(letter, [rsa, ed25519], now)), ['mc1: pass', 'mc2: pass']);
	});
}

test('mailauth accepts both signatures of any letter', async t => {
	await fc.assert(
		fc.asyncProperty(anyLetter, async letter => {
			t.deepEqual(await verify(compose(letter, [rsa, ed25519], now)), ['mc1: pass', 'mc2: pass']);
		}),
		{numRuns: 150},
	);
});

for (const [change, changed] of Object.entries<(mail: string) => string>({
	'a changed body': mail => mail.replace('Artikel 3', 'Artikel 4'),
	'text after the end': mail => `${mail}more\r\n`,
	'a second Subject above': mail => mail.replace('\r\nSubject:', '\r\nSubject: another\r\nSubject:'),
	'a second Subject at the end': mail => mail.replace('\r\n\r\n', '\r\nSubject: another\r\n\r\n'),
	'a second From': mail => mail.replace('\r\n\r\n', '\r\nFrom: eve@shop.example\r\n\r\n'),
	'a second To': mail => mail.replace('\r\n\r\n', '\r\nTo: eve@shop.example\r\n\r\n'),
	'a Content-Transfer-Encoding': mail => mail.replace('\r\n\r\n', '\r\nContent-Transfer-Encoding: base64\r\n\r\n'),
	'a List-Id': mail => mail.replace('\r\n\r\n', '\r\nList-Id: <x.example>\r\n\r\n'),
	'another unsubscribe URL': mail => mail.replace('https://mail.shop.example/', 'https://mail.evil.example/'),
	'no List-Unsubscribe-Post': mail => mail.replace(/\r\nList-Unsubscribe-Post:[^\r]*/, ''),
	'an In-Reply-To': mail => mail.replace('\r\n\r\n', '\r\nIn-Reply-To: <x@evil.example>\r\n\r\n'),
	'another Reply-To': mail => mail.replace('help@shop.example', 'eve@shop.example'),
})) {
	test(`fails verification with ${change}`, async t => {
		const mail = compose(receipt, [rsa, ed25519], now).toString('latin1');
		t.not(changed(mail), mail);
		const results = await verify(Buffer.from(changed(mail), 'latin1'));
		t.is(results.length, 2);
		t.false(
			results.some(result => result.endsWith('pass')),
			results.join(),
		);
	});
}

test('passes verification after changed white space or an added trace field', async t => {
	const mail = compose(receipt, [rsa, ed25519], now)
		.toString('latin1')
		.replace('Subject: ', 'SUBJECT:   ')
		.replaceAll('\r\n ', '\r\n\t')
		.replace(/\r\n$/, '\r\n\r\n\r\n');
	const relayed = Buffer.from(`Received: from a by b; Tue, 09 Jun 2026 10:15:32 +0000\r\n${mail}`, 'latin1');
	t.deepEqual(await verify(relayed), ['mc1: pass', 'mc2: pass']);
});

test('writes the expected tags of the signature', t => {
	const [line = ''] = headerLines(compose(receipt, [rsa], now));
	const tags = Object.fromEntries(
		line
			.slice('DKIM-Signature: '.length)
			.replaceAll(/\s/g, '')
			.split(';')
			.map(tag => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)]),
	);
	t.like(tags, {v: '1', a: 'rsa-sha256', c: 'relaxed/relaxed', d: domain, s: 'mc1', i: `@${domain}`});
	t.is(tags.t, String(Math.floor(now / 1000)));
	t.false('l' in tags);
	t.false('x' in tags);

	const signed = (tags.h ?? '').toLowerCase().split(':');
	const count = (name: string) => signed.filter(other => other === name).length;
	for (const name of headerLines(compose(receipt, [], now)).map(field => field.split(':')[0]?.toLowerCase() ?? '')) {
		t.is(count(name), 2, name);
	}
	for (const name of ['in-reply-to', 'references', 'list-id', 'content-transfer-encoding']) {
		t.is(count(name), 1, name);
	}
	for (const name of ['return-path', 'received', 'bcc', 'dkim-signature']) {
		t.is(count(name), 0, name);
	}
});

test('both signatures have the same time and body hash, and no long lines', t => {
	const mail = compose(receipt, [rsa, ed25519], now).toString('latin1');
	const header = mail.slice(0, mail.indexOf('\r\nDate:'));
	t.is(new Set(header.match(/bh=[^;]+/g)).size, 1);
	for (const line of header.split('\r\n')) {
		t.true(line.length <= 78, line);
	}
});

test('signs each header field once more often than it occurs', async t => {
	const mail = compose(receipt, [rsa], now).toString('latin1');
	t.false((await verify(Buffer.from(`Subject: x\r\n${mail}`, 'latin1'))).includes('mc1: pass'));
});

test('generates 2048-bit RSA and Ed25519 keys, never the same twice', async t => {
	const other = await generateSigningKeys();
	t.not(other.rsa, pems.rsa);
	t.not(other.ed25519, pems.ed25519);
	t.is(rsa.key.asymmetricKeyDetails?.modulusLength, 2048);
	t.regex(records['mc1._domainkey.shop.example'] ?? '', /^v=DKIM1; k=rsa; p=MIIB[A-Za-z0-9+/]{388}$/);
	t.regex(records['mc2._domainkey.shop.example'] ?? '', /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
});

test('refuses a key of another kind and an invalid key', t => {
	t.throws(() => importSigningKey({domain, selector: 's', algorithm: 'ed25519-sha256', privateKeyPem: pems.rsa}));
	t.throws(() => importSigningKey({domain, selector: 's', algorithm: 'rsa-sha256', privateKeyPem: pems.ed25519}));
	t.throws(() => importSigningKey({domain, selector: 's', algorithm: 'rsa-sha256', privateKeyPem: 'x'}));
	t.throws(() => dkimRecordValue('x'));
});
