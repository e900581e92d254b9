import {gzipSync} from 'node:zlib';
import test from 'ava';
import {tlsTask} from '../../src/daemon/sweep.ts';
import {acceptInbound} from '../../src/inbound/accept-inbound.ts';
import {recordReading} from '../../src/inbound/reading.ts';
import {readHeader} from '../../src/inbound/reports/raw-header.ts';
import {readInbound} from '../../src/inbound/reports/read-inbound.ts';
import {keyNames} from '../../src/inbound/reports/signatures.ts';
import {systemClocks} from '../../src/kit/work-limit.ts';
import {precedence} from '../../src/mail/report.ts';
import {createReportWrite} from '../../src/outcome/reports.ts';
import {countDmarcDays, readDmarc, readTlsFailures, readTlsSums} from '../../src/resources/domains/reports-store.ts';
import {listUnread} from '../../src/resources/received/inbound-store.ts';
import {roomLeft} from '../../src/store/report-bounds.ts';
import type {Store} from '../../src/store/store.ts';
import {dmarcMail, type Facts, mailWith, reporters, reportSigner, tlsFacts} from '../helpers/aggregate-mails.ts';
import {classify} from '../helpers/classify.ts';
import {storeTest} from '../helpers/databases.ts';
import {eventWriter, insertWorkspace} from '../helpers/messages.ts';
import {links} from '../helpers/reports.ts';

const now = Date.UTC(2026, 10, 27, 12);
const clock = {now: () => now};
const day = Date.UTC(2026, 10, 26) / 1000;
const facts: Facts = {
	...{org: '', email: '', id: 'r-1', domain: 'shop.example', begin: day, end: day + 86_399},
	records: [
		{ip: '192.0.2.1', n: 20, dkim: 'pass', spf: 'pass'},
		{ip: '192.0.2.1', n: 2, dkim: 'fail', spf: 'pass'},
		{ip: '203.0.113.9', n: 5, dkim: 'fail', spf: 'fail', mailFrom: 'evil.example', passed: 'pass'},
	],
};
const google = reporters[0] as (typeof reporters)[number];
const {sign: signed, value} = await reportSigner();
const byStranger = (mail: Buffer) => signed(mail, 'evil.example');

/** Accepts a message and records its report; returns why it is retained, and the error. */
async function bring(store: Store, raw: Buffer, rcptTo = ['dmarc@bounce.shop.example']) {
	const {id} = await acceptInbound(
		{writer: store.writer, node: 'n', clock},
		{raw, source: 'smtp', mailFrom: '', rcptTo},
	);
	const all = {node: 'n', othersUntil: '9', precedence: precedence.proven, perTurn: 10, maxRows: 10, maxBytes: 1e8};
	const [unread] = (await listUnread(store.reader, all)).messages;
	if (unread === undefined) {
		return 'known';
	}
	const {raw: bytes, ...cameIn} = unread;
	const recording = {
		...{reader: store.reader, writer: store.writer, links, reporters: [], ownNames: ['bounces.example'], clock},
		write: createReportWrite(eventWriter, {retentionDays: () => 90}),
	};
	const key = {kind: 'found', records: [value]} as const;
	const answers = new Map(keyNames(readHeader(bytes)).map(name => [`txt ${name}`, key] as const));
	const reading = await readInbound({raw: bytes, envelope: null, answers}, classify, systemClocks);
	await recordReading(recording, cameIn, reading, bytes);
	const row = await store.reader('inbound').where({id}).first('kept', 'fault', 'read_at');
	return row === undefined ? 'forgotten' : `${row.kept ?? 'counted'}${row.fault ? `: ${row.fault}` : ''}`;
}

const tlsMail = (change: object) =>
	mailWith({
		...{
			from: 'smtp-tls@google.com',
			to: 'tlsrpt@bounce.shop.example',
			subject: 'Report Domain: bounce.shop.example',
		},
		...{type: 'application/tlsrpt+gzip', name: 'a.json.gz'},
		bytes: gzipSync(JSON.stringify({...tlsFacts, ...change})),
	});

storeTest(test, 'counts a report once, however it arrives and however often', async (t, store) => {
	await insertWorkspace(store);
	const {id: domainId} = await store.reader('domains').first('id');
	t.is(await bring(store, await signed(dmarcMail(google, facts))), 'counted');
	t.is(await bring(store, await signed(dmarcMail(google, facts)), ['dmarc@bounces.example']), 'forgotten');
	t.is(await bring(store, dmarcMail({...google, packing: 'gzip', ext: 'xml.gz'}, facts), []), 'forgotten');
	const asked = {domainId, since: '2026-11-01', counted: 'n'} as const;
	t.deepEqual(await readDmarc(store.reader, asked, 10), {
		...{reports: 1, reporters: ['google.com'], ips: 2, lost: 5, unsigned: 0},
		sources: [
			{ip: '192.0.2.1', why: '', n: 22, aligned: 22, spf: 22, dkim: 20},
			{ip: '203.0.113.9', why: 'DKIM none, SPF pass for evil.example', n: 5, aligned: 0, spf: 0, dkim: 0},
		],
	});
	t.is((await store.reader('dmarc_reports').first('signed_by')).signed_by, 'google.com');
	t.is(await bring(store, dmarcMail(google, {...facts, id: 'r-2'})), 'counted');
	t.like(await readDmarc(store.reader, asked, 10), {lost: 10, unsigned: 27, sources: [{n: 44, dkim: 40}, {n: 10}]});
	const bySigned = {...asked, counted: 'signed'} as const;
	t.like(await readDmarc(store.reader, bySigned, 10), {lost: 5, unsigned: 0, sources: [{n: 22, dkim: 20}, {n: 5}]});
	t.like(await readDmarc(store.reader, {...asked, since: '2026-11-27'}, 10), {reports: 0, ips: 0, unsigned: 0});
});

storeTest(test, 'sums up days with mail from an address and shows its most frequent reason', async (t, store) => {
	await insertWorkspace(store);
	const {id: domainId} = await store.reader('domains').first('id');
	const row = {domain_id: domainId, ip: '192.0.2.1', dkim: 0, spf: 0, disposition: 'none'};
	await store.writer.transaction(async trx => {
		await trx('dmarc_days').insert([
			{...row, day: '2026-11-20', why: 'DKIM fail', n: 7, signed: 7},
			{...row, day: '2026-11-21', why: 'DKIM fail', n: 7, signed: 0},
			{...row, day: '2026-11-21', why: 'DKIM none', n: 1, signed: 1},
			{...row, day: '2026-11-22', why: 'DKIM none', n: 1, signed: 0},
			{...row, day: '2026-11-22', why: '', spf: 1, n: 30, signed: 0},
			{...row, day: '2026-11-23', ip: '192.0.2.2', why: 'SPF none', n: 90, signed: 90},
		]);
	});
	const asked = {domainId, since: '2026-11-01', counted: 'n'} as const;
	const own = ['192.0.2.1'];
	t.is(await countDmarcDays(store.reader, asked, own), 3);
	t.is(await countDmarcDays(store.reader, {...asked, counted: 'signed'}, own), 2);
	t.is(await countDmarcDays(store.reader, asked, []), 0);
	t.like(await readDmarc(store.reader, asked, 10), {sources: [{why: 'SPF none'}, {why: 'DKIM fail', aligned: 30}]});
	t.like(await readDmarc(store.reader, asked, 1), {ips: 2, lost: 106, sources: [{n: 90}]});
});

storeTest(
	test,
	'retains a report for review if its domain is not verified or its period is not recent',
	async (t, store) => {
		await insertWorkspace(store);
		const foreign = 'unmatched: the report is about other.example, which is not a verified domain here';
		t.is(await bring(store, dmarcMail(google, {...facts, domain: 'other.example'})), foreign);
		const long = {begin: day - 200 * 86_400, end: day - 199 * 86_400};
		t.is(
			await bring(store, dmarcMail(google, {...facts, ...long})),
			'unmatched: the reported period is too old or in the future',
		);
		const later = {begin: day + 4 * 86_400, end: day + 5 * 86_400};
		t.is(
			await bring(store, dmarcMail(google, {...facts, ...later})),
			'unmatched: the reported period is too old or in the future',
		);
		await store.writer.transaction(async trx => void (await trx('domains').update({state: 'pending'})));
		t.is(
			await bring(store, dmarcMail(google, {...facts, id: 'r-3'})),
			'unmatched: the report is about shop.example, which is not a verified domain here',
		);
		t.is(Number((await store.reader('dmarc_days').count('* as n').first())?.n), 0);
	},
);

storeTest(
	test,
	'limits reports per day without crowding out other signers, and removes counts with their domain',
	async (t, store) => {
		await insertWorkspace(store);
		const {id: domainId} = await store.reader('domains').first('id');
		const head = {domain_id: domainId, begin_at: '2026-11-26T00:00:00.000Z', end_at: 'x', received_at: 'x', cut: 0};
		const flood = async (site: string | null) => {
			const named = (n: number) => ({org: `o${n}`, report_id: `${site}`, signed_by: site && `n${n}.${site}`});
			const many = Array.from({length: 300}, (_, n) => ({...head, ...named(n)}));
			await store.writer.transaction(trx => trx.batchInsert('dmarc_reports', many, 50));
		};
		const tooMany = 'unmatched: too many reports about shop.example for that day are unsigned or from one signer';
		await flood(null);
		await flood('notgoogle.com');
		t.is(await bring(store, dmarcMail(google, facts)), tooMany);
		t.is(await bring(store, await signed(dmarcMail(google, {...facts, id: 'r-4'}))), 'counted');
		await flood('google.com');
		t.is(await bring(store, await signed(dmarcMail(google, {...facts, id: 'r-5'}))), tooMany);
		await store.writer.transaction(async trx => {
			await trx('senders').delete();
			await trx('domains').delete();
		});
		t.is(Number((await store.reader('dmarc_reports').count('* as n').first())?.n), 0);
	},
);

storeTest(test, 'requires a signature on a TLS report and counts it once', async (t, store) => {
	const inside = await insertWorkspace(store);
	t.is(await bring(store, tlsMail({})), 'unmatched: a TLS report needs a valid DKIM signature');
	t.is(await bring(store, await signed(tlsMail({}))), 'counted');
	t.is(
		await bring(store, Buffer.concat([await signed(tlsMail({})), Buffer.from('\r\n')]), ['tlsrpt@x.example']),
		'forgotten',
	);
	const since = '2026-11-01';
	const own = {domain: 'bounce.shop.example', host: null, policy: 'sts', total: 54};
	t.deepEqual(await readTlsSums(store.reader, 'tls_report_days', {since, limit: 10}), [
		{...own, result: 'certificate-expired', count: 4},
		{...own, result: 'success', count: 50},
	]);
	t.deepEqual(await readTlsFailures(store.reader, since, 10), [
		{
			...{day: '2026-11-26', domain: 'bounce.shop.example', org: 'Reporter Inc.', signed_by: 'google.com'},
			failure: 'certificate-expired, 4 from 198.51.100.4 to mail.shop.example',
		},
	]);
	t.like(await store.reader('tls_reports').first(), {
		...{org: 'Reporter Inc.', signed_by: 'google.com'},
		failures: '["certificate-expired, 4 from 198.51.100.4 to mail.shop.example"]',
	});
	const about = (domain: string) => ({
		'report-id': domain,
		policies: [{...tlsFacts.policies[0], policy: {'policy-type': 'sts', 'policy-domain': domain}}],
	});
	t.is(await bring(store, await signed(tlsMail(about('bounces.example')))), 'counted', 'a name of the settings');
	const {workspaceId} = inside;
	const inbox = {id: 'inb_1', workspace_id: workspaceId, address: '*@in.shop.example', created_at: 'now'};
	await store.writer.transaction(async trx => void (await trx('inbound_addresses').insert(inbox)));
	t.is(await bring(store, await signed(tlsMail(about('in.shop.example')))), 'counted', 'a domain of received mail');
	t.is(
		await bring(store, await signed(tlsMail(about('i_.shop.example')))),
		'unmatched: the report is about i_.shop.example, which is not a verified domain here',
		'a name is no pattern',
	);
	const row = await store.reader('tls_reports').first();
	for (const site of ['notgoogle.com', 'google.com']) {
		const many = Array.from({length: 300}, (_, n) => ({
			...row,
			report_id: `${site} ${n}`,
			signed_by: `n${n}.${site}`,
		}));
		await store.writer.transaction(trx => trx.batchInsert('tls_reports', many, 50));
		t.is(
			await bring(store, await signed(tlsMail({'report-id': site}))),
			site === 'google.com'
				? 'unmatched: too many reports about bounce.shop.example for that day are unsigned or from one signer'
				: 'counted',
		);
	}
	t.is(
		await bring(store, await signed(tlsMail(about('other.example')))),
		'unmatched: the report is about other.example, which is not a verified domain here',
	);
});

storeTest(test, 'removes reports after half a year', async (t, store) => {
	await insertWorkspace(store);
	t.is(await bring(store, await signed(dmarcMail(google, facts))), 'counted');
	t.deepEqual(await sweepAt(store, now + 170 * dayMs), {rows: 3, n: 27, reports: 1});
	t.deepEqual(await sweepAt(store, now + 182 * dayMs), {rows: 0, n: 0, reports: 0});
});

const dayMs = 86_400_000;

/** What is stored of DMARC reports. */
async function leftOf(store: Store) {
	const sums = await store.reader('dmarc_days').count('* as rows').sum('n as n').first();
	const {n: reports} = (await store.reader('dmarc_reports').count('* as n').first()) ?? {};
	return {rows: Number(sums?.rows), n: Number(sums?.n), reports: Number(reports)};
}

async function sweepAt(store: Store, at: number) {
	const step = tlsTask({store, clock: {now: () => at}}).begin();
	while (await step()) {
		// Repeated until nothing is left to remove.
	}
	return await leftOf(store);
}

const many = (length: number, second: number): Facts['records'] =>
	Array.from({length}, (_, n) => ({
		...({ip: `10.${second}.${n >> 8}.${n & 255}`, n: 1, dkim: 'fail', spf: 'fail'} as const),
		mailFrom: `${n}.evil${n}.example`,
	}));

storeTest(test, 'limits what unsigned reports store per day, and removes it after a month', async (t, store) => {
	await insertWorkspace(store);
	const first = {...facts, records: [...facts.records, ...many(1997, 1)]};
	t.is(await bring(store, dmarcMail(google, first)), 'counted');
	t.deepEqual(await leftOf(store), {rows: 101, n: 2024, reports: 1});
	for (let second = 2; second < 5; second++) {
		const more = {...facts, id: `r-${second}`, records: many(2000, second)};
		t.is(await bring(store, await byStranger(dmarcMail(google, more))), 'counted', 'signed by a stranger');
	}
	t.deepEqual(await leftOf(store), {rows: 101, n: 8024, reports: 4});
	t.is(Number((await store.reader('dmarc_days').sum('n as n').where({ip: 'others'}).first())?.n), 7900);
	t.is(await bring(store, await signed(dmarcMail(google, {...facts, id: 'r-9'}))), 'counted');
	t.deepEqual(await sweepAt(store, now + 28 * dayMs), {rows: 101, n: 8051, reports: 5});
	t.deepEqual(await sweepAt(store, now + 32 * dayMs), {rows: 3, n: 27, reports: 1}, 'the signed one is left');
	const old = {begin: day - 40 * 86_400, end: day - 39 * 86_400};
	t.is(
		await bring(store, dmarcMail(google, {...facts, ...old})),
		'unmatched: the reported period is too old or in the future',
	);
	t.is(await bring(store, await signed(dmarcMail(google, {...facts, ...old}))), 'counted');
});

storeTest(test, 'limits what the reports of one signer store, and leaves room for other signers', async (t, store) => {
	await insertWorkspace(store);
	const evil = {...google, org: 'evil.example', from: 'dmarc@evil.example'};
	for (let second = 1; second < 4; second++) {
		const report = dmarcMail(evil, {...facts, id: `r-${second}`, records: many(2000, second)});
		t.is(await bring(store, await byStranger(report)), 'counted');
	}
	t.deepEqual(await leftOf(store), {rows: 501, n: 6000, reports: 3});
	t.is(await bring(store, await signed(dmarcMail(google, facts))), 'counted');
	t.deepEqual(await leftOf(store), {rows: 504, n: 6027, reports: 4});
});

storeTest(test, 'replaces a forged report with the signed one', async (t, store) => {
	await insertWorkspace(store);
	const {id: domainId} = await store.reader('domains').first('id');
	const read = async (counted: 'n' | 'signed') => {
		const {reports, lost, unsigned, sources} = await readDmarc(
			store.reader,
			{domainId, since: '2026-11-01', counted},
			10,
		);
		return {reports, lost, unsigned, ips: sources.map(({ip, n}) => [ip, n])};
	};
	const forged = {...facts, records: [...facts.records, {...(facts.records[2] as Facts['records'][number]), n: 900}]};
	const other = {...facts, id: 'r-2'};
	t.is(await bring(store, dmarcMail(google, forged)), 'counted');
	t.is(await bring(store, await byStranger(dmarcMail(google, forged))), 'counted');
	t.is(await bring(store, dmarcMail(google, other)), 'counted');
	t.deepEqual(await read('signed'), {reports: 3, lost: 0, unsigned: 0, ips: []}, 'none of them is proven');
	t.is(
		await bring(store, await signed(dmarcMail(google, facts), 'mail.google.com')),
		'counted',
		'a host of the reporter',
	);
	const genuine = [
		['192.0.2.1', 22],
		['203.0.113.9', 5],
	];
	t.deepEqual(await read('signed'), {reports: 2, lost: 5, unsigned: 0, ips: genuine});
	t.deepEqual(await read('n'), {
		reports: 2,
		lost: 10,
		unsigned: 27,
		ips: [
			['192.0.2.1', 44],
			['203.0.113.9', 10],
		],
	});
	t.is(await bring(store, await signed(dmarcMail(google, facts))), 'forgotten', 'signed by another host of it');
	t.is(await bring(store, dmarcMail({...google, packing: 'gzip'}, facts)), 'forgotten', 'unsigned, after it');
	t.is(await bring(store, await byStranger(dmarcMail({...google, packing: 'none'}, forged))), 'forgotten');
	t.deepEqual(await read('signed'), {reports: 2, lost: 5, unsigned: 0, ips: genuine});
});

storeTest(test, 'accepts an id that a reporter uses again for another period', async (t, store) => {
	await insertWorkspace(store);
	const later = {begin: day + 86_400, end: day + 2 * 86_400 - 1};
	for (const [id, sign] of Object.entries({'r-1': signed, 'r-2': async (mail: Buffer) => mail})) {
		t.is(await bring(store, await sign(dmarcMail(google, {...facts, id}))), 'counted');
		t.is(await bring(store, await sign(dmarcMail(google, {...facts, id, ...later}))), 'counted');
	}
	t.is((await leftOf(store)).reports, 4);
	const tlsOf = async (from: string) => {
		const range = {'start-datetime': `${from}T00:00:00Z`, 'end-datetime': `${from}T23:59:59Z`};
		return await signed(tlsMail({'date-range': range}));
	};
	t.is(await bring(store, await tlsOf('2026-11-25')), 'counted');
	t.is(await bring(store, await tlsOf('2026-11-26')), 'counted');
	t.is(await bring(store, await byStranger(tlsMail({}))), 'counted', 'another signer');
});

storeTest(test, 'limits the text stored about TLS failures per signer and day', async (t, store) => {
	await insertWorkspace(store);
	const reason = 'x'.repeat(200);
	const details = Array.from({length: 100}, (_, n) => ({
		...{'result-type': 'certificate-expired', 'receiving-mx-hostname': `${n}.${reason}`, 'failed-session-count': 1},
		'failure-reason-code': reason,
	}));
	const policies = [{...tlsFacts.policies[0], 'failure-details': details}];
	for (let n = 0; n < 5; n++) {
		t.is(await bring(store, await byStranger(tlsMail({policies, 'report-id': `${n}`}))), 'counted');
	}
	const lengthOf = async () =>
		Number((await store.reader('tls_reports').select(store.reader.raw('sum(length(failures)) as n')).first())?.n);
	const length = await lengthOf();
	t.true(length > 3000 && length < 4500, `${length}`);
	t.is(await bring(store, await signed(tlsMail({}))), 'counted');
	t.true((await lengthOf()) > length);
});

test('gives each signer its share, and a small reserve once the total is used up', t => {
	const bound = {each: 500, all: 1000, reserved: 20};
	t.is(roomLeft(bound, {own: 0, all: 0}), 500);
	t.is(roomLeft(bound, {own: 450, all: 450}), 50);
	t.is(roomLeft(bound, {own: 0, all: 900}), 100);
	t.is(roomLeft(bound, {own: 500, all: 1000}), 0);
	t.is(roomLeft(bound, {own: 5, all: 1000}), 15);
	t.is(roomLeft(bound, {own: 0, all: 2990}), 10);
	t.is(roomLeft(bound, {own: 0, all: 3000}), 0);
});
