import {gunzipSync} from 'node:zlib';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {generateSigningKeys, importSigningKey} from '../../src/compose/dkim.ts';
import {loadSettings} from '../../src/config/settings.ts';
import {mailboxOf, reportAddresses, tlsReportMail} from '../../src/daemon/tls-reports.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {sendDirectly} from '../../src/resources/alerts/send.ts';
import {
	claimTlsRecipient,
	claimTlsReport,
	endTlsReport,
	listDueTlsReports,
	purgeAggregates,
} from '../../src/resources/domains/reports-store.ts';
import {countTls} from '../../src/resources/domains/tls-store.ts';
import {storeTest, temporaryFolder} from '../helpers/databases.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {resolverOf} from '../helpers/resolvers.ts';

test('reads up to five mailto addresses from a single TLSRPT record', async t => {
	const many = Array.from({length: 20}, (_, n) => `mailto:a${n}@b.example`).join(',');
	const resolver = await resolverOf(t, {
		'_smtp._tls.a.example': {
			txt: ['v=TLSRPTv1;rua=mailto:tls%2Brpt@a.example, https://a.example/x ,mailto:b@a.example!10m;'],
		},
		'_smtp._tls.two.example': {txt: ['v=TLSRPTv1; rua=mailto:a@b.example', 'v=TLSRPTv1; rua=mailto:c@b.example']},
		'_smtp._tls.other.example': {txt: ['v=spf1 -all']},
		'_smtp._tls.many.example': {
			txt: [many.length > 255 ? ['v=TLSRPTv1; rua=', ...(many.match(/.{1,255}/g) ?? [])] : many],
		},
		'_smtp._tls.bad.example': {
			txt: ['v=TLSRPTv1; rua=mailto:,mailto:a%0d%0ab@c.example,mailto:x,ftp:a@b.example'],
		},
		'_smtp._tls.down.example': 'servfail',
	});
	t.deepEqual(await reportAddresses(resolver, 'a.example'), ['tls+rpt@a.example', 'b@a.example']);
	for (const none of ['two', 'other', 'bad', 'nothing']) {
		t.deepEqual(await reportAddresses(resolver, `${none}.example`), [], none);
	}
	t.is((await reportAddresses(resolver, 'many.example')).length, 5);
	await t.throwsAsync(reportAddresses(resolver, 'down.example'), {message: /DNS did not answer/});
});

const day = '2026-11-26';

test('the report message has the format of RFC 8460', async t => {
	const {rsa} = await generateSigningKeys();
	const key = {domain: 'a.example', selector: 's', algorithm: 'rsa-sha256', privateKeyPem: rsa} as const;
	const raw = tlsReportMail({
		...{day, domain: 'b.example', own: 'a.example', host: 'mail.a.example', to: 'r@b.example', policy: null},
		...{keys: [importSigningKey(key)], now: Date.UTC(2026, 10, 27)},
		counts: [
			{policy: 'tlsa', host: 'mx.b.example', result: 'success', n: 5},
			{policy: 'tlsa', host: 'mx.b.example', result: 'tlsa-invalid', n: 2},
		],
	});
	t.true(raw.split('\r\n').every(line => line.length <= 998 && !line.endsWith(' ') && !line.includes('\n')));
	const {headers, attachments, text} = await simpleParser(raw);
	t.like(headers.get('content-type'), {value: 'multipart/report', params: {'report-type': 'tlsrpt'}});
	t.is(headers.get('tls-report-domain'), 'b.example');
	t.is(headers.get('tls-report-submitter'), 'a.example');
	t.regex(String(headers.get('subject')), /^Report Domain: b\.example Submitter: a\.example Report-ID: <.+>$/);
	t.regex(text ?? '', /^TLS connections to the mail servers of b\.example on 2026-11-26/);
	t.like(attachments[0], {
		...{contentType: 'application/tlsrpt+gzip', filename: 'a.example!b.example!1795651200!1795737599.json.gz'},
	});
	t.deepEqual(JSON.parse(gunzipSync(attachments[0]?.content as Buffer).toString()), {
		'organization-name': 'a.example',
		'date-range': {'start-datetime': '2026-11-26T00:00:00Z', 'end-datetime': '2026-11-26T23:59:59Z'},
		'contact-info': 'postmaster@a.example',
		'report-id': '2026-11-26T00:00:00Z_b.example@mail.a.example',
		policies: [
			{
				policy: {'policy-type': 'tlsa', 'policy-domain': 'b.example'},
				summary: {'total-successful-session-count': 5, 'total-failure-session-count': 2},
				'failure-details': [
					{'result-type': 'tlsa-invalid', 'receiving-mx-hostname': 'mx.b.example', 'failed-session-count': 2},
				],
			},
		],
	});
});

storeTest(test, 'one of several nodes sends a report, and another one if it dies', async (t, store) => {
	const result = {host: 'mx', policy: 'sts', result: 'success'} as const;
	await store.writer.transaction(trx =>
		countTls(
			trx,
			['a.example', 'b.example'].map(domain => ({day, domain, ...result})),
		),
	);
	const due = (now: string) => listDueTlsReports(store.reader, day, now, 10);
	t.deepEqual(await due('2026-11-27T01'), ['a.example', 'b.example']);
	const claim = (now: string, until: string) =>
		store.writer.transaction(trx => claimTlsReport(trx, {day, domain: 'a.example', now, due: until}));
	const claimed = await Promise.all([1, 2, 3].map(() => claim('2026-11-27T01', '2026-11-27T03')));
	t.deepEqual(claimed.toSorted(), [false, false, true]);
	t.deepEqual(await due('2026-11-27T02'), ['b.example']);
	t.deepEqual(await due('2026-11-27T04'), ['a.example', 'b.example'], 'the node died');
	t.true(await claim('2026-11-27T04', '2026-11-27T06'));
	await store.writer.transaction(trx => endTlsReport(trx, {day, domain: 'a.example', now: '2026-11-27T04'}, null));
	t.deepEqual(await due('2026-11-27T09'), ['b.example']);
	t.false(await claim('2026-11-27T09', '2026-11-27T11'), 'it went out');
	t.is((await store.reader('tls_reports_sent').first('attempts')).attempts, 2);
});

storeTest(test, 'an address receives at most five reports a day, from all nodes and domains', async (t, store) => {
	const claim = (on: string, address: string) => store.writer.transaction(trx => claimTlsRecipient(trx, on, address));
	const claimed = await Promise.all(Array.from({length: 8}, () => claim('2026-11-27', 'r@victim.example')));
	t.is(claimed.filter(Boolean).length, 5);
	t.true(await claim('2026-11-27', 'r@other.example'));
	t.true(await claim('2026-11-28', 'r@victim.example'), 'the next day');
	await store.writer.transaction(trx => purgeAggregates(trx, {day: '2026-11-28', unprovenDay: '2026-11-28'}, 10));
	t.deepEqual(await store.reader('tls_report_recipients').pluck('day'), ['2026-11-28']);
});

test('recognizes a mailbox however its address is spelled', t => {
	t.is(mailboxOf('R+1@b.example'), 'r@b.example');
	t.is(mailboxOf('r+a+b@b.example'), 'r@b.example');
	t.is(mailboxOf('R@b.example'), 'r@b.example');
});

test('delivers a report even if TLS is broken', async t => {
	const mx = await startFakeMx(t, {brokenTls: 'garbage'});
	const resolver = await resolverOf(t, {
		'b.example': {mx: [[10, 'mx.b.example']]},
		'mx.b.example': {a: ['127.0.0.1']},
	});
	const cwd = await temporaryFolder(t);
	const env = {
		...{MAILCTL_DATA_DIR: cwd, MAILCTL_DELIVERY: 'mx', MAILCTL_MX_PORT: String(mx.port)},
		...{MAILCTL_ALLOW_PRIVATE_MX: 'true', MAILCTL_RETURN_PATH_DOMAIN: 'b.a.example'},
	};
	const loaded = loadSettings({env, cwd, hostname: 'mail.a.example', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join());
	}
	const mail = {raw: 'Subject: x\r\n\r\nx\r\n', envelope: {from: '', to: 'r@b.example'}};
	const options = {settings: loaded.settings, clock: systemClock, resolver};
	await t.throwsAsync(sendDirectly(options, 'r@b.example', mail));
	await sendDirectly(options, 'r@b.example', mail, true);
	t.is(mx.count(), 1);
	t.true(mx.connections.some(({commands}) => commands.includes('MAIL FROM:<>')));
});
