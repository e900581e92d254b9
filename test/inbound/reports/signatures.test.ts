import test from 'ava';
import {dkimSign} from 'mailauth/lib/dkim/sign.js';
import {dkimRecordValue, generateSigningKeys} from '../../../src/compose/dkim.ts';
import {KnownAnswers} from '../../../src/inbound/reports/known-answers.ts';
import {readHeader} from '../../../src/inbound/reports/raw-header.ts';
import {findSigners} from '../../../src/inbound/reports/read-inbound.ts';
import {keyNames, letterLimits, reportLimits, verifySignatures} from '../../../src/inbound/reports/signatures.ts';
import {systemClocks} from '../../../src/kit/work-limit.ts';
import type {DnsAnswer} from '../../../src/net/dns.ts';

const {rsa} = await generateSigningKeys();
const record = dkimRecordValue(rsa);
const report = Buffer.from('From: fbl@arf.reporter.test\r\nSubject: complaint\r\n\r\nFeedback-Type: abuse\r\n');

async function signed(signingDomain: string, maxBodyLength?: number, mail = report, more = {}): Promise<Buffer> {
	const key = {signingDomain, selector: 's1', privateKey: rsa};
	const limited = {...key, ...(maxBodyLength !== undefined && {maxBodyLength})};
	const {signatures} = await dkimSign(mail, {...key, ...more, signTime: new Date(), signatureData: [limited]});
	return Buffer.concat([Buffer.from(signatures), mail]);
}

const found: DnsAnswer<string> = {kind: 'found', records: [record]};

/** The DNS answers for the keys that a message names. */
const answersFor = (raw: Buffer, answer: DnsAnswer<string> = found) =>
	new Map(keyNames(readHeader(raw)).map(name => [`txt ${name}`, answer] as const));

const signers = (raw: Buffer, answer: DnsAnswer<string> = found) =>
	findSigners(raw, 'arf', answersFor(raw, answer), systemClocks);

test('returns the domain that signed a report', async t => {
	const mail = await signed('arf.reporter.test');
	t.deepEqual([...answersFor(mail).keys()], ['txt s1._domainkey.arf.reporter.test']);
	t.deepEqual(signers(mail), ['arf.reporter.test']);
	t.deepEqual(signers(await signed('ARF.Reporter.test')), ['arf.reporter.test']);
	const withSeal = Buffer.concat([Buffer.from('ARC-Seal: i=1\r\n'), mail]);
	t.deepEqual(signers(withSeal), ['arf.reporter.test']);
	t.deepEqual(signers(Buffer.from(mail.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')), [
		'arf.reporter.test',
	]);
});

test('returns no signer if the report was changed or only partly signed', async t => {
	const mail = await signed('arf.reporter.test');
	t.deepEqual(signers(Buffer.concat([mail, Buffer.from('more')])), []);
	t.deepEqual(signers(await signed('arf.reporter.test', 8)), []);
	t.deepEqual(signers(Buffer.concat([Buffer.from('X-By: arf.reporter.test\r\n'), report])), []);
});

test('returns no signer if DNS fails or returns an invalid key', async t => {
	const mail = await signed('arf.reporter.test');
	for (const answer of [{kind: 'failed', code: 'ESERVFAIL'}, {kind: 'nxdomain'}, {kind: 'nodata'}] as const) {
		t.deepEqual(signers(mail, answer), [], answer.kind);
	}
	t.deepEqual(signers(mail, {kind: 'found', records: ['v=DKIM1; p=x']}), []);
});

test('ignores the signatures in a header over the limits', async t => {
	const mail = await signed('arf.reporter.test');
	const names = (field: string) => keyNames(readHeader(Buffer.concat([Buffer.from(field), mail])));
	for (const field of [
		'X-A: b\r\n'.repeat(1500),
		`X-A: b${'\r\n\tc'.repeat(1500)}\r\n`,
		`X-A: ${'b'.repeat(70_000)}\r\n`,
	]) {
		t.deepEqual(names(field), [], field.slice(0, 40));
	}
	for (const field of [
		`DKIM-Signature: v=1${';'.repeat(5000)}\r\n`,
		`DKIM-Signature : v=1${'\r\n '.repeat(900)}\r\n`,
		`ARC-Seal: i=1${';\r\n\t'.repeat(900)}\r\n`,
		`X-A: ${'a@b.test, '.repeat(500)}c@d.test\r\n`,
		`Return-Path: ${'<'.repeat(5000)}\r\n`,
	]) {
		t.deepEqual(names(field), ['s1._domainkey.arf.reporter.test'], field.slice(0, 40));
	}
});

test('checks the signatures of the author’s domain first if there are many', async t => {
	const mail = await signed('reporter.test', undefined, Buffer.from('From: a@arf.reporter.test\r\n\r\nHello\r\n'));
	const other = (n: number) => `DKIM-Signature: v=1; a=rsa-sha256; d=d${n}.test; s=s; h=from; bh=eA==; b=eA==\r\n`;
	const broken = 'DKIM-Signature: v=1; a=rsa-sha256; d=reporter.test; s=s; h=to; bh=eA==; b=eA==\r\n';
	const many = `${broken.repeat(9)}${Array.from({length: 60}, (_, n) => other(n)).join('')}`;
	const raw = Buffer.concat([Buffer.from(many), mail]);
	t.deepEqual(keyNames(readHeader(raw)), [
		's1._domainkey.reporter.test',
		...[0, 1, 2, 3].map(n => `s._domainkey.d${n}.test`),
	]);
	t.deepEqual(signers(raw), ['reporter.test']);
});

test('verifies every combination of header and body canonicalization', async t => {
	const header = 'From: Ada  <ada@x.test> \r\nSubject:  a\r\n\tb \r\nTo : x@y.test\r\n';
	for (const body of [
		'',
		'\r\n',
		'\r\n\r\n',
		'a',
		'a \t\r\n b  c\r\n\r\n\r\n',
		' \r\n',
		`${'long  line '.repeat(20_000)}\r\n`,
	]) {
		for (const canonicalization of ['simple/simple', 'simple/relaxed', 'relaxed/simple', 'relaxed/relaxed']) {
			const mail = await signed('x.test', undefined, Buffer.from(`${header}\r\n${body}`), {canonicalization});
			t.deepEqual(signers(mail), ['x.test'], `${canonicalization} ${JSON.stringify(body.slice(0, 20))}`);
		}
	}
});

const manySigned = (body: string): Buffer => {
	const field = (n: number) =>
		`DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=d${n}.test; s=s; h=from; bh=eA==; b=eA==\r\n`;
	return Buffer.from(`${[1, 2, 3, 4, 5].map(field).join('')}From: a@d1.test\r\n\r\n${body}`);
};

test('does not verify a report that is large or has many lines, but does verify a personal message', async t => {
	const verify = (raw: Buffer, limits: typeof reportLimits) =>
		verifySignatures(raw, new KnownAnswers(answersFor(raw)), limits, {
			clock: {monotonic: () => 0, now: () => 0},
			cpu: () => 0,
		});
	for (const body of ['\t\n'.repeat(30_000), '\r\n'.repeat(30_000), 'x'.repeat(600_000)]) {
		const raw = manySigned(body);
		t.deepEqual(verify(raw, reportLimits), []);
		t.is(verify(raw, letterLimits(raw.length)).length, 5);
	}
	const lines = manySigned('\t\n'.repeat(300_000));
	t.deepEqual(verify(lines, letterLimits(lines.length)), []);
});

test('gives up on signatures that take longer than the time limit', async t => {
	const raw = manySigned('\t\n'.repeat(100_000));
	let now = 0;
	let looks = 0;
	const slow = (): number => {
		looks++;
		now += 50;
		return now;
	};
	const limits = letterLimits(raw.length);
	const verdicts = verifySignatures(raw, new KnownAnswers(answersFor(raw)), limits, {
		clock: {monotonic: slow, now: () => 0},
		cpu: slow,
	});
	t.deepEqual(
		verdicts.map(({result}) => result),
		new Array(5).fill('temperror'),
	);
	t.true(looks <= 20);
});
