import test from 'ava';
import {dkimSign} from 'mailauth/lib/dkim/sign.js';
import {dkimRecordValue, generateSigningKeys} from '../../src/compose/dkim.ts';
import {trustedReporter} from '../../src/inbound/reading.ts';
import type {Reading} from '../../src/mail/report.ts';
import type {DnsAnswer} from '../../src/net/dns.ts';
import {complaint, reading} from '../helpers/reports.ts';

const {rsa} = await generateSigningKeys();
const record = dkimRecordValue(rsa);
const report = Buffer.from('From: fbl@arf.reporter.test\r\nSubject: complaint\r\n\r\nFeedback-Type: abuse\r\n');
const arf = reading([complaint], {kind: 'arf'});

async function signed(signingDomain: string, maxBodyLength?: number, mail = report): Promise<Buffer> {
	const key = {signingDomain, selector: 's1', privateKey: rsa};
	const limited = {...key, ...(maxBodyLength !== undefined && {maxBodyLength})};
	const {signatures} = await dkimSign(mail, {...key, signTime: new Date(), signatureData: [limited]});
	return Buffer.concat([Buffer.from(signatures), mail]);
}

/** A reporter check whose DNS answers this; `asked` are the names. */
function checker(answer: DnsAnswer<string> = {kind: 'found', records: [record]}) {
	const asked: string[] = [];
	const txt = async (name: string) => {
		asked.push(name);
		return answer;
	};
	const options = {reporters: ['arf.reporter.test'], resolver: {txt}};
	return {asked, reporterOf: (raw: Buffer, read: Reading) => trustedReporter(options, raw, read)};
}

test('a report that a trusted reporter signed', async t => {
	const {asked, reporterOf} = checker();
	t.is(await reporterOf(await signed('arf.reporter.test'), arf), 'arf.reporter.test');
	t.deepEqual(asked, ['s1._domainkey.arf.reporter.test']);
	t.is(await reporterOf(await signed('ARF.Reporter.test'), arf), 'arf.reporter.test');
});

test('not by somebody else, nor changed, nor signed in part', async t => {
	const {reporterOf} = checker();
	const mail = await signed('arf.reporter.test');
	t.is(await reporterOf(await signed('other.test'), arf), null);
	t.is(await reporterOf(await signed('sub.arf.reporter.test'), arf), null);
	t.is(await reporterOf(Buffer.concat([mail, Buffer.from('more')]), arf), null);
	t.is(await reporterOf(await signed('arf.reporter.test', 8), arf), null);
	const unsigned = Buffer.concat([Buffer.from('X-By: arf.reporter.test\r\n'), report]);
	t.is(await reporterOf(unsigned, arf), null);
});

test('DNS that does not answer, or garbage: nobody', async t => {
	const mail = await signed('arf.reporter.test');
	for (const answer of [{kind: 'failed', code: 'ESERVFAIL'}, {kind: 'nxdomain'}, {kind: 'nodata'}] as const) {
		t.is(await checker(answer).reporterOf(mail, arf), null, answer.kind);
	}
	t.is(await checker({kind: 'found', records: ['v=DKIM1; p=x']}).reporterOf(mail, arf), null);
});

test('what is no feedback report, bears nobody’s name, has many signatures or is large is not looked at', async t => {
	const {asked, reporterOf} = checker();
	const mail = await signed('arf.reporter.test');
	t.is(await reporterOf(mail, reading([complaint], {kind: 'dsn'})), null);
	t.is(await reporterOf(await signed('other.test'), arf), null);
	const many = Buffer.concat([Buffer.from('DKIM-Signature: d=arf.reporter.test\r\n'.repeat(1000)), mail]);
	t.is(await reporterOf(many, arf), null);
	t.deepEqual(asked, []);
	const large = await signed('arf.reporter.test', undefined, Buffer.concat([report, Buffer.alloc(600_000, 'x\r\n')]));
	t.is(await reporterOf(large, arf), null);
	const longHeader = Buffer.concat([Buffer.from('X-A: b\r\n'.repeat(5000)), report]);
	t.is(await reporterOf(await signed('arf.reporter.test', undefined, longHeader), arf), null);
	const ofOthers = [
		`DKIM-Signature: v=1${';'.repeat(5000)}`,
		`DKIM-Signature : v=1${'\r\n '.repeat(2000)}`,
		`ARC-Seal: i=1${';\r\n\t'.repeat(2000)}`,
		`ARC-Message-Signature: i=1;${'\r'.repeat(5000)}`,
		'DKIM-Signature : d=other.test\r\n'.repeat(5).trim(),
		'DKIM-Signature: v=1; d=other.test;\r\n\tl=5',
	];
	for (const field of ofOthers) {
		t.is(await reporterOf(Buffer.concat([Buffer.from(`${field}\r\n`), mail]), arf), null, field.slice(0, 40));
	}
	t.deepEqual(asked, []);
	t.is(await reporterOf(Buffer.concat([Buffer.from('ARC-Seal: i=1\r\n'), mail]), arf), 'arf.reporter.test');
	asked.length = 0;
	const nodata = {txt: async () => ({kind: 'nodata'}) as const};
	t.is(await trustedReporter({reporters: [], resolver: nodata}, mail, arf), null);
});
