import {gzipSync} from 'node:zlib';
import test from 'ava';
import fc from 'fast-check';
import type {DmarcReport, TlsReport} from '../../src/mail/aggregate.ts';
import {mailOfReport} from '../../src/report/aggregate-report.ts';
import {readDmarcReport} from '../../src/report/dmarc-report.ts';
import {readReport} from '../../src/report/read-report.ts';
import {readTlsReport} from '../../src/report/tls-report.ts';
import {unpack} from '../../src/report/unpack.ts';
import {readXml, XmlFault} from '../../src/report/xml.ts';
import {dmarcMail, type Facts, mailWith, pack, reporters, tlsFacts, zipOf} from '../helpers/aggregate-mails.ts';
import {classify} from '../helpers/classify.ts';

const day = Date.UTC(2026, 10, 26) / 1000;
const facts: Facts = {
	...{
		org: 'Reporter',
		email: 'dmarc@reporter.example',
		id: 'r-1',
		domain: 'shop.example',
		begin: day,
		end: day + 86_399,
	},
	records: [
		{
			ip: '192.0.2.1',
			n: 20,
			dkim: 'pass',
			spf: 'pass',
			signer: 'shop.example',
			signed: 'pass',
			mailFrom: 'bounce.shop.example',
			passed: 'pass',
		},
		{
			ip: '2001:DB8::7',
			n: 3,
			dkim: 'fail',
			spf: 'fail',
			signer: 'other.example',
			signed: 'pass',
			mailFrom: 'em.other.example',
			passed: 'pass',
			disposition: 'quarantine',
			override: 'mailing_list',
		},
	],
};

for (const reporter of reporters) {
	test(`a DMARC report as ${reporter.org} sends it`, t => {
		const {kind, aggregate, fault} = readReport(dmarcMail(reporter, facts), classify);
		t.deepEqual([kind, fault], ['dmarc', null]);
		const report = aggregate as DmarcReport;
		t.like(report, {org: reporter.org.replace('&amp;', '&'), reportId: 'r-1', domain: 'shop.example', cut: 0});
		t.deepEqual([report.begin, report.end], [day * 1000, (day + 86_399) * 1000]);
		const [ours, strangers] = report.counts;
		t.deepEqual(ours, {ip: '192.0.2.1', n: 20, dkim: true, spf: true, disposition: 'none', why: ''});
		t.like(strangers, {ip: '2001:db8::7', n: 3, dkim: false, spf: false, disposition: 'quarantine'});
		const results =
			reporter.org === 'University'
				? 'DKIM none, SPF none'
				: 'DKIM pass for other.example, SPF pass for em.other.example';
		t.is(strangers?.why, `${results}; mailing list`);
	});
}

const [plain] = reporters;

function readOf(xml: string): DmarcReport | string | null {
	try {
		return readDmarcReport(xml);
	} catch (error) {
		if (error instanceof XmlFault) {
			return error.message;
		}
		throw error;
	}
}

const xmlOf = (change: Partial<Facts>) => plain?.xml({...facts, ...change}) as string;

test('an entity is neither expanded nor fetched: what declares one is refused', t => {
	const laughs = [
		'<!DOCTYPE lolz [<!ENTITY lol "lol">',
		...Array.from({length: 9}, (_, i) => `<!ENTITY lol${i + 1} "${`&lol${i || ''};`.repeat(10)}">`),
		']>',
	].join('');
	const outside = '<!DOCTYPE feedback [<!ENTITY x SYSTEM "file:///etc/passwd">]>';
	for (const type of [laughs, outside, '<!ENTITY x "y">', '<!doctype html>']) {
		t.regex(String(readOf(xmlOf({}).replace('<feedback>', `${type}<feedback>`))), /document type/);
	}
	const unknown = readOf(xmlOf({id: '&lol9;'}).replace('Reporter', '&x;'));
	t.is((unknown as DmarcReport).reportId, '&lol9;');
});

test('archives that are too large, hold several files or archives are refused', t => {
	const refused = (bytes: Buffer) => {
		const unpacked = unpack(bytes);
		return unpacked.ok ? null : unpacked.fault;
	};
	const zeros = Buffer.alloc(16 * 1024 * 1024);
	const xml = Buffer.from(xmlOf({}));
	t.regex(refused(gzipSync(zeros)) ?? '', /larger than 10 MiB/);
	t.regex(refused(zipOf([{name: 'a.xml', bytes: zeros}])) ?? '', /larger than 10 MiB/);
	t.regex(refused(zipOf([{name: 'a.xml', bytes: zeros}], 0)) ?? '', /larger than 10 MiB/);
	t.regex(
		refused(
			zipOf([
				{name: 'a.xml', bytes: xml},
				{name: 'b.xml', bytes: xml},
			]),
		) ?? '',
		/2 files/,
	);
	t.regex(refused(gzipSync(gzipSync(xml))) ?? '', /archive in the archive/);
	t.regex(
		refused(zipOf([{name: 'a.zip', bytes: zipOf([{name: 'a.xml', bytes: xml}])}])) ?? '',
		/archive in the archive/,
	);
	for (const whole of [gzipSync(xml), zipOf([{name: 'a.xml', bytes: xml}])]) {
		for (const length of [5, 20, whole.length >> 1, whole.length - 1]) {
			t.not(refused(whole.subarray(0, length)), null, `${length}`);
		}
	}
	t.deepEqual(
		unpack(zipOf([{name: '../../../../etc/passwd', bytes: xml}])),
		{ok: true, bytes: xml},
		'names are not used',
	);
});

test('what no report needs: depth, many elements, tags that do not match, an end that is missing', t => {
	t.regex(String(readOf('<a>'.repeat(100_000))), /too deep/);
	t.regex(String(readOf(`<feedback>${'<a/>'.repeat(100_000)}</feedback>`)), /too many elements/);
	t.regex(String(readOf(`<feedback><record>${'<a/>'.repeat(100_000)}</record></feedback>`)), /too many elements/);
	const whole = xmlOf({}).trimEnd();
	for (const length of [whole.length - 1, whole.length - 12, whole.length >> 1]) {
		t.is(typeof readOf(whole.slice(0, length)), 'string', `${length}`);
	}
	t.regex(String(readOf('<feedback><record><a></b></record></feedback>')), /do not match/);
	t.is(readOf('<html><body>Hello</body></html>'), null);
	t.is(readOf('no XML'), 'it is no XML');
});

test('counts, addresses and dates without sense', t => {
	const one = facts.records[0] as Facts['records'][number];
	const counts = (changes: ReadonlyArray<Partial<typeof one>>) =>
		readOf(xmlOf({records: changes.map(change => ({...one, ...change}))})) as DmarcReport;
	const odd = counts([
		{n: -5},
		{n: '1e9'},
		{n: 99_999_999_999},
		{n: 0},
		{n: ''},
		{ip: 'localhost'},
		{ip: '1.2.3.4.5'},
		{ip: 'fe80::1%eth0'},
		{n: 7},
	]);
	t.deepEqual([odd.counts.map(({n}) => n), odd.cut], [[7], 8]);
	t.is(counts([{n: 7}, {n: 8}]).counts[0]?.n, 15, 'alike ones are one');
	const spelled = ['2001:DB8:0:0::1', '2001:db8::1', '::ffff:127.0.0.1', '127.0.0.1', '64:ff9b::192.0.2.1'];
	t.deepEqual(
		counts(spelled.map(ip => ({ip, n: 2}))).counts.map(({ip, n}) => [ip, n]),
		[
			['2001:db8::1', 4],
			['127.0.0.1', 4],
			['64:ff9b::c000:201', 2],
		],
		'an address counts once, however it is spelled',
	);
	t.regex(String(counts([{n: 0}])), /no record/);
	const many = counts(Array.from({length: 3000}, (_, i) => ({ip: `10.0.${i >> 8}.${i & 255}`, n: i + 1})));
	t.deepEqual([many.counts.length, many.counts[0]?.n, many.cut], [2000, 3000, 1000]);
	t.regex(String(readOf(xmlOf({begin: day + 90_000}))), /dates/);
	t.regex(String(readOf(xmlOf({begin: day - 90 * 86_400}))), /dates/);
	t.regex(String(readOf(xmlOf({begin: Number.NaN}))), /dates/);
	t.regex(String(readOf(xmlOf({domain: 'a b'}))), /which domain/);
	const inMs = readOf(xmlOf({begin: day * 1000, end: (day + 1) * 1000})) as DmarcReport;
	t.is(inMs.begin, day * 1000);
	const nameless = readOf(xmlOf({}).replaceAll(/<(org_name|email|report_id)>[^<]*<\/\1>/g, '')) as DmarcReport;
	t.like(nameless, {org: 'unknown', reportId: String(day * 1000)});
});

test('a report that was saved without its mail', t => {
	const xml = Buffer.from(xmlOf({}));
	const read = (file: Buffer) => readReport(mailOfReport(file) as Buffer, classify);
	const marked = Buffer.concat([Buffer.from('\ufeff\r\n'), xml]);
	for (const file of [xml, marked, gzipSync(xml), zipOf([{name: 'report.xml', bytes: xml}])]) {
		t.like(read(file), {kind: 'dmarc', fault: null});
	}
	t.like(read(Buffer.from(JSON.stringify(tlsFacts))), {kind: 'tls'});
	const mail = `Subject: Report\r\n\r\n${xml}`;
	for (const other of ['', 'Dear Ada', 'a,b\n1,2\n', '\0', '{"kind": "dsn"}', '<html></html>', mail]) {
		t.is(mailOfReport(Buffer.from(other)), null);
	}
	t.is(mailOfReport(gzipSync(Buffer.alloc(11 * 1024 * 1024))), 'unpacked it is larger than 10 MiB');
});

test('a letter with an archive is a letter; a broken report is kept with its fault', t => {
	const attached = {from: 'ada@a.example', to: 'dmarc@bounce.shop.example', type: 'application/zip'};
	const two = zipOf([
		{name: 'a', bytes: Buffer.from('a')},
		{name: 'b', bytes: Buffer.from('b')},
	]);
	const letter = mailWith({...attached, subject: 'The photos', name: 'photos.zip', bytes: two});
	t.like(readReport(letter, classify), {kind: 'other', fault: null});
	const broken = mailWith({...attached, subject: 'Report Domain: shop.example', name: 'x.zip', bytes: two});
	t.like(readReport(broken, classify), {
		kind: 'dmarc',
		fault: 'the archive has 2 files, a report has one',
		reports: [],
	});
	const invoice = mailWith({
		...attached,
		type: 'text/xml',
		subject: 'Invoice',
		name: 'i.xml',
		bytes: Buffer.from('<Invoice/>'),
	});
	t.like(readReport(invoice, classify), {kind: 'other', fault: null});
});

const [policy] = tlsFacts.policies;
const tls = {
	...tlsFacts,
	policies: [
		{
			...policy,
			summary: {'total-successful-session-count': 50, 'total-failure-session-count': 6},
			'failure-details': [
				...(policy?.['failure-details'] ?? []),
				{
					...{'result-type': 'starttls-not-supported', 'sending-mta-ip': '198.51.100.5'},
					...{'receiving-mx-hostname': 'mail.shop.example', 'failed-session-count': 1},
					'failure-reason-code': 'x\u0000\u202ey',
				},
			],
		},
	],
};

test('a TLS report, its sums and its failures', t => {
	const bytes = gzipSync(JSON.stringify(tls));
	const name = 'reporter.example!bounce.shop.example!1795651200!1795737599.json.gz';
	const mail = mailWith({
		from: 'smtp-tls@reporter.example',
		to: 'tlsrpt@bounce.shop.example',
		subject: 'Report Domain: bounce.shop.example',
		type: 'application/tlsrpt+gzip',
		name,
		bytes,
	});
	const {kind, fault, aggregate} = readReport(mail, classify);
	t.deepEqual([kind, fault], ['tls', null]);
	const {counts, failures, ...rest} = aggregate as TlsReport;
	t.like(rest, {org: 'Reporter Inc.', domain: 'bounce.shop.example', begin: Date.UTC(2026, 10, 26), cut: 0});
	t.deepEqual(counts, [
		{policy: 'sts', result: 'success', n: 50},
		{policy: 'sts', result: 'certificate-expired', n: 4},
		{policy: 'sts', result: 'starttls-not-supported', n: 1},
		{policy: 'sts', result: 'unexplained', n: 1},
	]);
	t.deepEqual(failures, [
		'certificate-expired, 4 from 198.51.100.4 to mail.shop.example',
		'starttls-not-supported, 1 from 198.51.100.5 to mail.shop.example: x y',
	]);
	const broken = mailWith({
		from: 'a@b.example',
		to: 'c@d.example',
		subject: '',
		type: 'application/tlsrpt+json',
		name: 'a.json',
		bytes: Buffer.from('{"policies":'),
	});
	t.like(readReport(broken, classify), {kind: 'tls', fault: 'it is no JSON'});
	t.is(readTlsReport('{"a":1}'), null);
});

test('words that RFC 8460 does not have are one, so that a report adds few counts', t => {
	const details = (n: number) =>
		Array.from({length: 1000}, (_, i) => ({'result-type': `made-up-${n}-${i}`, 'failed-session-count': 1}));
	const policies = Array.from({length: 100}, (_, n) => ({
		policy: {'policy-type': `made-up-${n}`, 'policy-domain': 'bounce.shop.example'},
		summary: {'total-successful-session-count': 2, 'total-failure-session-count': 1001},
		'failure-details': [...details(n).slice(1), {'result-type': 'success', 'failed-session-count': 1}],
	}));
	const {counts, failures, cut} = readTlsReport(JSON.stringify({...tls, policies})) as TlsReport;
	t.deepEqual(counts, [
		{policy: 'other', result: 'success', n: 200},
		{policy: 'other', result: 'other', n: 100_000},
		{policy: 'other', result: 'unexplained', n: 100},
	]);
	t.deepEqual([failures.length, failures[0], cut], [20, 'other, 1', 0]);
});

test('any bytes, and any change of a report, are read or refused', t => {
	const whole = dmarcMail(reporters[14] as (typeof reporters)[number], facts);
	const packed = pack('zip', 'a.xml', Buffer.from(xmlOf({})));
	const json = Buffer.from(JSON.stringify(tls));
	const change = (bytes: Buffer) =>
		fc
			.tuple(fc.nat(bytes.length), fc.nat(64), fc.uint8Array({maxLength: 40}))
			.map(([at, gone, more]) => Buffer.concat([bytes.subarray(0, at), Buffer.from(more), bytes.subarray(at + gone)]));
	fc.assert(
		fc.property(fc.oneof(change(whole), change(packed), change(json), change(Buffer.from(xmlOf({})))), bytes => {
			const read = readReport(bytes, classify);
			t.true(read.aggregate === undefined || read.aggregate.counts.every(({n}) => n > 0));
			unpack(bytes);
			readOf(bytes.toString('latin1'));
			readTlsReport(bytes.toString('latin1'));
		}),
		{numRuns: 2000},
	);
	const tag = fc.constantFrom(
		'<feedback>',
		'</feedback>',
		'<record>',
		'</record>',
		'<row>',
		'</row>',
		'<a/>',
		'<!--',
		'-->',
		'<![CDATA[',
		']]>',
		'<?x',
		'?>',
		'&lt;',
		'x',
		'<',
		'>',
		'"',
		'<!DOCTYPE a>',
	);
	fc.assert(
		fc.property(fc.array(tag, {maxLength: 30}), tags => {
			readOf(tags.join(''));
			try {
				readXml(tags.join(''), 'record', ({name}) => t.is(name, 'record'));
			} catch (error) {
				t.true(error instanceof XmlFault);
			}
		}),
		{numRuns: 3000},
	);
	fc.assert(
		fc.property(fc.jsonValue(), value => {
			readTlsReport(JSON.stringify(value));
			readTlsReport(JSON.stringify({...tls, policies: [value]}));
			readTlsReport(
				JSON.stringify({...tls, policies: [{...tls.policies[0], summary: value, 'failure-details': [value]}]}),
			);
		}),
	);
});
