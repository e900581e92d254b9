import {createPrivateKey, generateKeyPairSync, hash, sign} from 'node:crypto';
import test from 'ava';
import {dkimRecordValue} from '../../../src/compose/dkim.ts';
import {KnownAnswers} from '../../../src/inbound/reports/known-answers.ts';
import {findSigners} from '../../../src/inbound/reports/read-inbound.ts';
import {letterLimits, verifySignatures} from '../../../src/inbound/reports/signatures.ts';
import {systemClocks} from '../../../src/kit/work-limit.ts';
import {relaxedHeader} from '../../../src/mail/dkim-canonical.ts';
import type {Verdict} from '../../../src/mail/received.ts';
import {rfc8463} from '../../compose/rfc8463.ts';

// Signatures that are cryptographically valid but break a rule.

const pem = {type: 'pkcs8', format: 'pem'} as const;
const rsa = (modulusLength: number) => generateKeyPairSync('rsa', {modulusLength}).privateKey.export(pem).toString();
const key = rsa(2048);
const record = dkimRecordValue(key);
const from = 'From: Ada <ada@bank.example>';
const subject = 'Subject: hello';
const body = 'Hello.\r\n';

type Parts = {
	/** Fields before the signature, the fields it covers, and what follows the body. */
	readonly before?: string;
	readonly fields?: readonly string[];
	readonly covered?: readonly string[];
	readonly tags?: string;
	readonly behind?: string;
	readonly signingKey?: string;
};

function signed(parts: Parts = {}): Buffer {
	const {before = '', fields = [from, subject], covered = fields, behind = '', signingKey = key} = parts;
	const {tags = `v=1; a=rsa-sha256; c=relaxed/relaxed; d=bank.example; s=s1; h=from:subject`} = parts;
	const unsigned = `DKIM-Signature: ${tags}; bh=${hash('sha256', body, 'base64')}; b=`;
	const data = covered.map(relaxedHeader).join('') + relaxedHeader(unsigned).slice(0, -2);
	const value = sign('sha256', Buffer.from(data, 'latin1'), createPrivateKey(signingKey)).toString('base64');
	return Buffer.from(`${before}${unsigned}${value}\r\n${fields.join('\r\n')}\r\n\r\n${body}${behind}`, 'latin1');
}

const tagsWith = (more: string, h = 'from:subject') =>
	`v=1; a=rsa-sha256; c=relaxed/relaxed; d=bank.example; s=s1; h=${h}${more}`;

function judged(raw: Buffer, text: string | readonly string[] = record): Verdict[] {
	const answers = new Map([['txt s1._domainkey.bank.example', {kind: 'found', records: [text].flat()}]] as const);
	const verdicts = verifySignatures(raw, new KnownAnswers(answers), letterLimits(raw.length), systemClocks);
	const passed = verdicts.flatMap(({result, domain}) => (result === 'pass' ? [domain] : []));
	// Reports are verified by the same function.
	if (JSON.stringify(findSigners(raw, 'arf', answers, systemClocks)) !== JSON.stringify(passed)) {
		throw new Error('a report has other signers');
	}
	return verdicts;
}

const resultOf = (raw: Buffer, text: string | readonly string[] = record) => judged(raw, text)[0]?.result ?? 'none';

test('passes a valid signature', t => {
	t.deepEqual(judged(signed()), [{result: 'pass', domain: 'bank.example'}]);
	for (const tags of [
		tagsWith('; i=@bank.example'),
		tagsWith('; i=ada@mail.bank.example'),
		tagsWith('; q=dns/txt; x=99999999999; t=1'),
		tagsWith(`; l=${body.length}`),
		tagsWith(';\r\n\tz=From:x|y'),
		tagsWith('', 'From : Subject :\r\n Date'),
		tagsWith('', 'from:from:subject:subject'),
		tagsWith('').replace('bank', 'BANK'),
	]) {
		t.is(resultOf(signed({tags})), 'pass', tags);
	}
	for (const more of ['; s=email', '; s=*', '; s=x:email', '; h=sha1:sha256', '; t=y', '; t=s', '; n=any']) {
		t.is(resultOf(signed({tags: tagsWith('; i=@bank.example')}), record + more), 'pass', more);
	}
	t.is(resultOf(signed(), ['v=spf1 -all', record]), 'pass');
});

test('does not pass a signature that breaks a rule', t => {
	const notFrom = signed({tags: tagsWith('', 'subject'), covered: [subject]});
	t.is(resultOf(notFrom), 'permerror', 'From not in h=');
	for (const more of [
		'; i=@evil.example',
		'; i=@example',
		'; i=ada@xbank.example',
		'; i=@bank.example.evil.example',
		'; i=',
		'; q=http',
		'; x=soon',
		`; l=${body.length + 1}`,
	]) {
		t.is(resultOf(signed({tags: tagsWith(more)})), 'permerror', more);
	}
	for (const more of ['; d=bank.example', '; d=evil.example', '; h=from', '; junk']) {
		t.is(resultOf(signed({tags: tagsWith(more)})), 'none', more);
	}
	for (const [was, is] of [
		['v=1', 'v=2'],
		['v=1; ', ''],
		['rsa-sha256', 'rsa-sha1'],
		['relaxed/relaxed', 'relaxed/none'],
	]) {
		t.is(resultOf(signed({tags: tagsWith('').replace(was as string, is as string)})), 'permerror', is);
	}
	t.is(resultOf(signed({tags: tagsWith('; x=1000000000')})), 'neutral', 'expired');
});

test('does not verify a signature with a key that does not allow its use', t => {
	const sub = signed({tags: tagsWith('; i=@mail.bank.example')});
	t.is(resultOf(sub, `${record}; t=s`), 'permerror', 't=s');
	t.is(resultOf(sub, `${record}; t=y:s`), 'permerror', 't=y:s');
	for (const more of ['; s=tlsrpt', '; s=other:x', '; h=sha1', '; h=sha1:md5']) {
		t.is(resultOf(signed(), record + more), 'permerror', more);
	}
	const tls = `${record}; s=tlsrpt`;
	const answers = new Map([['txt s1._domainkey.bank.example', {kind: 'found', records: [tls]}]] as const);
	t.deepEqual(findSigners(signed(), 'tls', answers, systemClocks), ['bank.example'], 'RFC 8460 §3');
	t.is(resultOf(signed(), record.replace('k=rsa', 'k=ed25519')), 'permerror', 'of another kind');
	t.is(resultOf(signed(), record.replace('DKIM1', 'DKIM2')), 'neutral', 'of another version');
	t.is(resultOf(signed(), 'v=DKIM1; p='), 'neutral', 'revoked');
	const short = rsa(768);
	t.is(resultOf(signed({signingKey: short}), dkimRecordValue(short)), 'policy', 'too short');
	t.is(resultOf(signed({signingKey: rsa(2048)})), 'fail', 'of somebody else');
});

test('does not pass a message to which unsigned content was added', t => {
	const whole = tagsWith(`; l=${body.length}`);
	t.is(resultOf(signed({tags: whole, behind: 'Pay me.\r\n'})), 'policy', 'behind the signed part');
	t.is(resultOf(signed({tags: tagsWith('; l=0'), behind: ''})), 'policy');
	t.is(resultOf(signed({behind: 'Pay me.\r\n'})), 'neutral');
	for (const before of [
		'From: evil@evil.example\r\n',
		'From : evil@evil.example\r\n',
		'FROM\t: evil@evil.example\r\n',
		'Subject: pay\r\nSubject: me\r\n',
	]) {
		t.is(resultOf(signed({before})), 'policy', before);
	}
	for (const before of [
		'From: evil@evil.example\r\n--x\r\n',
		'no field\r\n',
		' folded\r\n',
		'X-A: b\r\rFrom: evil@evil.example\r\n',
		'\r\n',
	]) {
		t.is(resultOf(signed({before})), 'none', JSON.stringify(before));
	}
	t.is(resultOf(signed({before: 'From ada@bank.example Fri Nov 27 10:00:00 2026\r\n'})), 'pass', 'of an mbox');
});

test('verifies both signatures of the example message of RFC 8463', t => {
	const {ed25519, rsa: second, fields} = rfc8463;
	const signatures = [ed25519, second].map(({field, signature}) => field + signature);
	const raw = Buffer.from(`${[...signatures, ...fields].join('\r\n')}\r\n\r\n${rfc8463.body}`);
	const names = ['brisbane', 'test'].map(selector => `txt ${selector}._domainkey.football.example.com`);
	const answers = new Map(
		[ed25519, second].map(({record: text}, n) => [names[n] as string, {kind: 'found', records: [text]}] as const),
	);
	t.deepEqual(findSigners(raw, 'arf', answers, systemClocks), ['football.example.com', 'football.example.com']);
});
