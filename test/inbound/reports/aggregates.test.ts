import {gzipSync} from 'node:zlib';
import test from 'ava';
import fc from 'fast-check';
import {mailOfReport} from '../../../src/inbound/reports/aggregate-report.ts';
import {readDmarcReport} from '../../../src/inbound/reports/dmarc-report.ts';
import {readReport} from '../../../src/inbound/reports/read-report.ts';
import {readTlsReport} from '../../../src/inbound/reports/tls-report.ts';
import {unpack} from '../../../src/inbound/reports/unpack.ts';
import {readXml, XmlProblem} from '../../../src/inbound/reports/xml.ts';
import type {DmarcReport, TlsReport} from '../../../src/mail/aggregate.ts';
import {dmarcMail, type Facts, mailWith, pack, reporters, tlsFacts, zipOf} from '../../helpers/aggregate-mails.ts';
import {classify} from '../../helpers/classify.ts';

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
	test(`reads a DMARC report as ${reporter.org} sends it`, t => {
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
				: 'DKIM pass for other.example, SPF pass for other.example';
		t.is(strangers?.why, `${results}; mailing list`);
	});
}

const [plain] = reporters;

function readOf(xml: string): DmarcReport | string | null {
	try {
		return readDmarcReport(xml);
	} catch (error) {
		if (error instanceof XmlProblem) {
			return error.message;
		}
		throw error;
	}
}

const xmlOf = (change: Partial<Facts>) => plain?.xml({...facts, ...change}) as string;

test('rejects a document type declaration and neither expands nor fetches entities', t => {
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

test('rejects an archive that is too large, damaged or nested, or that holds several files', t => {
	const refused = (bytes: Buffer) => {
		const unpacked = unpack(bytes);
		return unpacked.ok ? null : unpacked.problem;
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
	t.regex(refused(gzipSync(gzipSync(xml))) ?? '', /contains another archive/);
	t.regex(
		refused(zipOf([{name: 'a.zip', bytes: zipOf([{name: 'a.xml', bytes: xml}])}])) ?? '',
		/contains another archive/,
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

test('rejects XML that is nested too deeply, has too many elements, or has unmatched or unclosed tags', t => {
	t.regex(String(readOf('<a>'.repeat(100_000))), /too deep/);
	t.regex(String(readOf(`<feedback>${'<a/>'.repeat(100_000)}</feedback>`)), /too many elements/);
	t.regex(String(readOf(`<feedback><record>${'<a/>'.repeat(100_000)}</record></feedback>`)), /too many elements/);
	const whole = xmlOf({}).trimEnd();
	for (const length of [whole.length - 1, whole.length - 12, whole.length >> 1]) {
		t.is(typeof readOf(whole.slice(0, length)), 'string', `${length}`);
	}
	t.regex(String(readOf('<feedback><record><a></b></record></feedback>')), /do not match/);
	t.is(readOf('<html><body>Hello</body></html>'), null);
	t.is(readOf('no XML'), 'it is not XML');
});

test('tolerates invalid counts, addresses and dates', t => {
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
	t.deepEqual([odd.counts.map(({n}) => n), odd.cut], [[7], 7]);
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
	t.regex(String(counts([{n: -5}])), /none of its records/);
	const many = counts(Array.from({length: 3000}, (_, i) => ({ip: `10.0.${i >> 8}.${i & 255}`, n: i + 1})));
	t.deepEqual([many.counts.length, many.counts[0]?.n, many.cut], [2000, 3000, 1000]);
	t.regex(String(readOf(xmlOf({begin: day + 90_000}))), /dates/);
	t.regex(String(readOf(xmlOf({begin: day - 90 * 86_400}))), /dates/);
	t.regex(String(readOf(xmlOf({begin: Number.NaN}))), /dates/);
	t.regex(String(readOf(xmlOf({domain: 'a b'}))), /does not name the domain/);
	const inMs = readOf(xmlOf({begin: day * 1000, end: (day + 1) * 1000})) as DmarcReport;
	t.is(inMs.begin, day * 1000);
	const nameless = readOf(xmlOf({}).replaceAll(/<(org_name|email|report_id)>[^<]*<\/\1>/g, '')) as DmarcReport;
	t.like(nameless, {org: 'unknown', reportId: String(day * 1000)});
});

test('shortens names to the registered domain, so that its subdomains are counted together', t => {
	const {override: _, ...one} = facts.records[1] as Facts['records'][number];
	const records = Array.from({length: 300}, (_, n) => ({
		...one,
		signer: `${n}.${'a'.repeat(60)}.evil.co.uk`,
		mailFrom: `b${n}.evil.co.uk`,
		n: 1,
	}));
	const report = readOf(xmlOf({records})) as DmarcReport;
	t.deepEqual(
		report.counts.map(({why, n}) => [why, n]),
		[['DKIM pass for evil.co.uk, SPF pass for evil.co.uk', 300]],
	);
	const of = (org: string, email: string) => {
		const {org: name, reporterDomains} = readOf(xmlOf({org, email})) as DmarcReport;
		return [name, ...reporterDomains];
	};
	t.deepEqual(of('Mx1.Reporter.Co.Uk.', 'a@b.reporter.co.uk'), [
		'Reporter.Co.Uk',
		'reporter.co.uk',
		'reporter.co.uk',
	]);
	t.deepEqual(of('Some Org', 'dmarc@mail.some.example'), ['Some Org', 'some.example']);
	t.deepEqual(of('x'.repeat(2000), 'nobody'), ['x'.repeat(100)]);
	t.deepEqual(of('co.uk', 'a@192.0.2.1'), ['co.uk'], 'a public suffix and an address are nobody’s');
	t.deepEqual(of('one.github.io', 'a@two.github.io'), ['one.github.io', 'two.github.io', 'one.github.io']);
});

test('reads a report that was saved without the message that carried it', t => {
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
	t.is(mailOfReport(gzipSync(Buffer.alloc(11 * 1024 * 1024))), 'its content is larger than 10 MiB');
});

test('treats a personal message with an archive as a message, and stores a broken report with its error', t => {
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
		fault: 'the archive has 2 files instead of one',
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

test('reads the totals and failures of a TLS report', t => {
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
	t.like(readReport(broken, classify), {kind: 'tls', fault: 'it is not JSON'});
	t.is(readTlsReport('{"a":1}'), null);
});

test('counts all values unknown to RFC 8460 as "other", so that a report adds few counters', t => {
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
	const long = 'x'.repeat(2000);
	const detail = {'sending-mta-ip': long, 'receiving-mx-hostname': long, 'failure-reason-code': long};
	const told = [{...policies[0], 'failure-details': [detail]}];
	const [line] = (readTlsReport(JSON.stringify({...tls, policies: told})) as TlsReport).failures;
	t.true((line as string).length < 300);
});

const read = (mail: Buffer | string) => readReport(Buffer.from(mail as Buffer), classify);
const subject = 'Report Domain: shop.example Submitter: reporter.example Report-ID: r-1';
const sent = {...{from: 'dmarc@reporter.example', to: 'dmarc@bounce.shop.example'}, subject};
const fileName = `reporter.example!shop.example!${day}!${day + 86_399}.xml.gz`;
const isReadAs = (kind: 'dmarc' | 'tls') => ({kind, fault: null, aggregate: {kind}});

test('ignores bytes after the end of a gzip file', t => {
	const packed = gzipSync(xmlOf({}));
	for (const after of [
		'\r\n',
		'\n',
		'\r\n\r\n',
		' ',
		'\0\0',
		'\0\0\r\n',
		'\r\n\0',
		'\r\0\n\0',
		'\r\n--\r\nThis message was scanned.\r\n',
	]) {
		const bytes = Buffer.concat([packed, Buffer.from(after)]);
		t.like(read(mailWith({...sent, type: 'application/gzip', name: fileName, bytes})), isReadAs('dmarc'), after);
		t.like(read(mailOfReport(bytes) as Buffer), isReadAs('dmarc'), after);
	}
	const damaged = Buffer.concat([packed.subarray(0, -9), Buffer.from('\r\n')]);
	t.deepEqual(unpack(damaged), {ok: false, problem: 'the archive is damaged'});
	const altered = Buffer.concat([packed.subarray(0, -8), gzipSync('other').subarray(-8)]);
	t.deepEqual(unpack(altered), {ok: false, problem: 'the archive is damaged'});
	t.deepEqual(unpack(Buffer.concat([packed, packed])), {ok: true, bytes: Buffer.from(xmlOf({}).repeat(2))});
	const withHeader = Buffer.concat([
		...[packed.subarray(0, 3), Buffer.from([2 + 4 + 8 + 16]), packed.subarray(4, 10)],
		...[Buffer.from('\x03\0abcname\0comment\0\x12\x34', 'latin1'), packed.subarray(10), Buffer.from('\r\n\0')],
	]);
	t.deepEqual(unpack(withHeader), {ok: true, bytes: Buffer.from(xmlOf({}))});
	t.deepEqual(unpack(withHeader.subarray(0, 17)), {ok: false, problem: 'the archive is damaged'});
});

test('does not count folders in a zip archive as files', t => {
	const xml = Buffer.from(xmlOf({}));
	const none = Buffer.alloc(0);
	const file = {name: 'reports/2026/r.xml', bytes: xml};
	for (const others of [
		['reports/'],
		['reports/', 'reports/2026/'],
		['__MACOSX/', '__MACOSX/._r.xml'],
		['reports\\'],
	]) {
		const folders = others.map(name => ({name, bytes: none}));
		t.deepEqual(unpack(zipOf([...folders, file])), {ok: true, bytes: xml});
		t.deepEqual(unpack(zipOf([file, ...folders])), {ok: true, bytes: xml});
		t.like(unpack(zipOf(folders)), {problem: 'the archive has 0 files instead of one'});
		t.like(unpack(zipOf([...folders, file, {name: 'b.xml', bytes: xml}])), {
			problem: 'the archive has 2 files instead of one',
		});
	}
});

test('recognizes a report by its content, whatever the type and name of its part', t => {
	const xml = Buffer.from(xmlOf({}));
	const json = Buffer.from(JSON.stringify(tlsFacts));
	const word = (text: string) => `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;
	for (const type of ['application/octet-stream', 'application/x-compressed', 'text/plain', 'x']) {
		for (const name of ['', 'report', 'report.bin', word('bericht für mai.zip'), word(fileName)]) {
			for (const bytes of [xml, gzipSync(xml), zipOf([{name: 'r.xml', bytes: xml}]), json, gzipSync(json)]) {
				for (const isBody of [false, true]) {
					const mail = mailWith({...sent, subject: 'Aggregate', type, name, bytes, isBody});
					const about = `${type} ${name} ${isBody}`;
					const expected = isReadAs(unpackedText(bytes).startsWith('{') ? 'tls' : 'dmarc');
					t.like(read(mail), expected, about);
					t.like(read(mail.toString('latin1').replaceAll(/; (?:file)?name="[^"]*"/g, '')), expected, about);
				}
			}
		}
	}
	const damaged = mailWith({
		...sent,
		type: 'application/octet-stream',
		name: '',
		bytes: gzipSync(xml).subarray(0, 99),
	});
	t.like(read(damaged), {kind: 'dmarc', fault: 'the archive is damaged'});
	const office = zipOf([
		{name: '[Content_Types].xml', bytes: xml},
		{name: 'word/document.xml', bytes: xml},
	]);
	const type = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';
	const letter = mailWith({...sent, subject: 'Report for May', type, name: 'may.docx', bytes: office});
	t.like(read(letter), {kind: 'other', fault: null});
});

function unpackedText(bytes: Buffer): string {
	const unpacked = unpack(bytes);
	return unpacked.ok ? unpacked.bytes.toString() : '';
}

test('reads a report inside a message that forwards it', t => {
	const bytes = gzipSync(xmlOf({}));
	const report = mailWith({...sent, type: 'application/gzip', name: fileName, bytes});
	const large = mailWith({
		...sent,
		...{type: 'text/xml', name: 'r.xml'},
		bytes: Buffer.from(xmlOf({}).replace('</feedback>', `${' '.repeat(700_000)}</feedback>`)),
	});
	const forward = (mail: Buffer, field = 'Content-Type: message/rfc822') => {
		const boundary = `f${mail.length}`;
		const lines = [
			...['From: ada@shop.example', 'To: dmarc@bounce.shop.example', 'Subject: Fwd: report'],
			...[`Content-Type: multipart/mixed; boundary=${boundary}`, ''],
			...[`--${boundary}`, '', 'See below.', '', `--${boundary}`, field, ''],
			...[mail.toString('latin1'), `--${boundary}--`, ''],
		];
		return Buffer.from(lines.join('\r\n'), 'latin1');
	};
	const named = 'Content-Type: application/octet-stream; name="report.eml"';
	for (const mail of [forward(report), forward(forward(report)), forward(large), forward(report, named)]) {
		t.like(read(mail), isReadAs('dmarc'));
	}
	let deep = report;
	for (let n = 0; n < 5; n++) {
		deep = forward(deep);
	}
	t.is(read(deep).kind, 'other');
	const letter = mailWith({
		...sent,
		subject: 'Hello',
		type: 'application/pdf',
		name: 'a.pdf',
		bytes: Buffer.from('%PDF'),
	});
	t.is(read(forward(letter)).kind, 'other');
});

test('reads a report inside a schema element that is never closed', t => {
	const schema = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="http://dmarc.org/dmarc-xml/0.1">';
	const xml = xmlOf({});
	const expected = readOf(xml);
	for (const [before, after] of [
		[schema, ''],
		[schema, '</xs:schema>'],
		['', '</xs:schema>'],
		[schema.replace('>', '/>'), ''],
		['<schema>', ''],
		[`${schema}<xs:element name="a"><xs:complexType/></xs:element></xs:schema>`, ''],
		['<schema><element name="record"/></schema>', ''],
		[`${schema}<xs:element name="a"/>`, ''],
		[`${schema}<xs:element name="a"/>`, '</xs:schema>'],
	] as const) {
		const wrapped = `${xml.replace('<feedback>', `${before}\n<feedback>`)}${after}`;
		t.deepEqual(readOf(wrapped), expected, before + after);
		t.like(
			read(mailWith({...sent, type: 'text/xml', name: 'r.xml', bytes: Buffer.from(wrapped)})),
			isReadAs('dmarc'),
		);
	}
	t.is(readOf(`${schema}<xs:element name="a"/></xs:schema>`), null, 'a schema alone is another document');
	t.is(readOf(`${schema}</xs:schema><invoice/>`), null);
	t.regex(String(readOf(`${schema}${xml.slice(xml.indexOf('<feedback>'), -30)}`)), /truncated/);
});

test('treats a Unicode domain and its A-labels as the same domain', t => {
	for (const domain of ['bücher.example', 'BÜCHER.example.', 'xn--bcher-kva.example', 'bu\u0308cher.example']) {
		t.is((readOf(xmlOf({domain})) as DmarcReport).domain, 'xn--bcher-kva.example', domain);
	}
	t.is((readOf(xmlOf({domain: '日本。jp'})) as DmarcReport).domain, 'xn--wgv71a.jp');
	t.regex(String(readOf(xmlOf({domain: 'bü cher.example'}))), /does not name the domain/);
	t.regex(String(readOf(xmlOf({domain: 'bücher.example/x'}))), /does not name the domain/);
	const one = {...(facts.records[1] as Facts['records'][number]), signer: 'mx1.bücher.example'};
	const {counts, org, reporterDomains} = readOf(
		xmlOf({org: 'mx1.bücher.example', email: 'a@mx.bücher.example', records: [one]}),
	) as DmarcReport;
	t.regex(counts[0]?.why ?? '', /^DKIM pass for xn--bcher-kva\.example,/);
	t.deepEqual([org, ...reporterDomains], Array(3).fill('xn--bcher-kva.example'));
	const policies = [{...policy, policy: {...policy?.policy, 'policy-domain': 'bounce.bücher.example'}}];
	t.is((readTlsReport(JSON.stringify({...tls, policies})) as TlsReport).domain, 'bounce.xn--bcher-kva.example');
});

test('reads a report that covers no messages', t => {
	const none = '<record><row><source_ip></source_ip><count>0</count></row></record>';
	const noMail = '<record><row><source_ip>192.0.2.1</source_ip><count>0</count></row></record>';
	for (const records of ['', '<record></record>', '<record/>', none, noMail]) {
		const xml = xmlOf({records: []}).replace('</feedback>', `${records}</feedback>`);
		t.like(readOf(xml), {counts: [], cut: 0, domain: 'shop.example'}, records);
		t.like(read(mailWith({...sent, type: 'text/xml', name: 'r.xml', bytes: Buffer.from(xml)})), isReadAs('dmarc'));
	}
	for (const policies of [[], null, undefined]) {
		const bytes = Buffer.from(JSON.stringify({...tlsFacts, policies}));
		t.like(read(mailWith({...sent, type: 'application/tlsrpt+json', name: 'r.json', bytes})), {
			...isReadAs('tls'),
			aggregate: {counts: [], failures: [], cut: 0},
		});
	}
});

test('takes the domain of a TLS report from its message if the report does not name one', t => {
	const {policy: whole, ...rest} = tls.policies[0] as (typeof tls.policies)[number];
	const anonymous = {...whole, 'policy-domain': undefined};
	const json = JSON.stringify({...tls, 'report-id': 'r-1', policies: [{policy: anonymous, ...rest}]});
	const sums = (readTlsReport(JSON.stringify(tls)) as TlsReport).counts;
	const mail = (name: string, about: string, field = '') =>
		`${field}${mailWith({
			...{...sent, subject: about, type: 'application/tlsrpt+gzip', name},
			bytes: gzipSync(json),
		}).toString('latin1')}`;
	const domain = 'bounce.shop.example';
	for (const found of [
		mail(`reporter.example!${domain}!1795651200!1795737599.json.gz`, 'Report'),
		mail('r.json.gz', `Report Domain: ${domain} Submitter: reporter.example Report-ID: <r-1>`),
		mail('r.json.gz', 'Report', `TLS-Report-Domain: ${domain}\r\n`),
	]) {
		t.like(read(found), {...isReadAs('tls'), aggregate: {domain, counts: sums}});
	}
	t.like(readTlsReport(json.replace('"r-1"', `"2026-11-26T00:00:00Z_${domain}"`)), {domain, counts: sums});
	t.like(read(mail('r.json.gz', 'Report')), {kind: 'tls', fault: 'it does not name the domain it is about'});
	const mixed = JSON.stringify({...tls, policies: [{policy: anonymous, ...rest}, ...tls.policies]});
	t.is(
		(readTlsReport(mixed) as TlsReport).counts[0]?.n,
		100,
		'a policy without a domain is about that of the others',
	);
});

test('reads a TLS report with a byte order mark', t => {
	const text = `\ufeff${JSON.stringify(tls)}`;
	for (const bytes of [Buffer.from(text), Buffer.from(text, 'utf16le')]) {
		const mail = {...sent, type: 'application/tlsrpt+json', name: 'r.json'};
		t.like(read(mailWith({...mail, bytes})), isReadAs('tls'));
		t.like(read(mailWith({...mail, type: 'application/tlsrpt+gzip', bytes: gzipSync(bytes)})), isReadAs('tls'));
		t.like(read(mailOfReport(bytes) as Buffer), isReadAs('tls'));
	}
});

test('keeps the records with the most messages if a report has more than the limit', t => {
	const record = (i: number, n: number) =>
		`<record><row><source_ip>10.${i >> 16}.${(i >> 8) & 255}.${i & 255}</source_ip><count>${n}</count></row></record>`;
	const report = (order: (i: number) => number) => {
		const records = Array.from({length: 45_000}, (_, i) => record(i, order(i) + 1)).join('');
		return readOf(xmlOf({records: []}).replace('</feedback>', `${records}</feedback>`)) as DmarcReport;
	};
	for (const order of [(i: number) => i, (i: number) => 44_999 - i, (i: number) => (i * 7919) % 45_000]) {
		const {counts, cut} = report(order);
		t.deepEqual([counts.length, counts[0]?.n, counts.at(-1)?.n, cut], [2000, 45_000, 43_001, 43_000]);
	}
});

test('either reads or rejects arbitrary bytes and arbitrarily changed reports', t => {
	const whole = dmarcMail(reporters[14] as (typeof reporters)[number], facts);
	const packed = pack('zip', 'a.xml', Buffer.from(xmlOf({})));
	const json = Buffer.from(JSON.stringify(tls));
	const change = (bytes: Buffer) =>
		fc
			.tuple(fc.nat(bytes.length), fc.nat(64), fc.uint8Array({maxLength: 40}))
			.map(([at, gone, more]) =>
				Buffer.concat([bytes.subarray(0, at), Buffer.from(more), bytes.subarray(at + gone)]),
			);
	fc.assert(
		fc.property(fc.oneof(change(whole), change(packed), change(json), change(Buffer.from(xmlOf({})))), bytes => {
			const read = readReport(bytes, classify);
			t.true(read.aggregate === undefined || read.aggregate.counts.every(({n}) => n > 0));
			unpack(bytes);
			readOf(bytes.toString('latin1'));
			readTlsReport(bytes.toString('latin1'));
		}),
		{numRuns: 500},
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
				t.true(error instanceof XmlProblem);
			}
		}),
		{numRuns: 500},
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
