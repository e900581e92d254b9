import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {countTls, savePolicy, type TlsDay} from '../../src/resources/domains/tls-store.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {eventsOf, type Program, prepareProgram} from '../helpers/daemon.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {freePort} from '../helpers/free-port.ts';
import {waitFor} from '../helpers/wait.ts';

const dayMs = 86_400_000;
/** The time after midnight (UTC) at which yesterday is reported and the day before no longer is. */
const restMs = 1_800_000;

async function inStore<Result>(program: Program, work: (store: Store) => Promise<Result>): Promise<Result> {
	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	try {
		return await work(store);
	} finally {
		await store.close();
	}
}

/** An installation with a verified domain that receives bounces on one port and sends to another. */
async function install(t: ExecutionContext, zone: Zone, dns: string, domain: string, listen: number, mxPort: number) {
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: `mail.${domain}`,
		MAILCTL_RETURN_PATH_DOMAIN: `bounces.mail.${domain}`,
		MAILCTL_PUBLIC_URL: `https://mail.${domain}`,
		MAILCTL_INBOUND_LISTEN: `127.0.0.1:${listen}`,
		MAILCTL_MX_PORT: String(mxPort),
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns,
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		MAILCTL_TLS_REPORTS: 'true',
	});
	await program.cli('workspace', 'create', '--name', 'main');
	zone[`mail.${domain}`] = {a: ['127.0.0.1']};
	const {records} = await program.cli<{records: readonly ToPublish[]}>('domain', 'add', domain);
	publish(zone, records);
	zone[`_smtp._tls.bounce.${domain}`] = {
		txt: [`v=TLSRPTv1; rua=https://r.example/tls,mailto:a@none.example,mailto:tlsrpt%40bounce.${domain}`],
	};
	await program.cli('domain', 'verify', domain);
	return program;
}

test.serial('two installations send each other TLS reports exactly once, even after a restart', async t => {
	await waitFor('the day is long enough', () => (Date.now() - restMs) % dayMs < dayMs - 180_000, 200_000);
	const yesterday = storeTime(Date.now() - dayMs - restMs).slice(0, 10);
	const zone: Zone = {};
	const dns = await startFakeDns(t, zone);
	const [portA, portB] = [await freePort(), await freePort()];
	const a = await install(t, zone, dns.server, 'a.example', portA, portB);
	const b = await install(t, zone, dns.server, 'b.example', portB, portA);
	const seen = (domain: string, result: TlsDay['result'], policy: TlsDay['policy'] = 'no-policy-found'): TlsDay => ({
		...{day: yesterday, domain, host: `mail.${domain.replace('bounce.', '')}`, result, policy},
	});
	await inStore(a, store =>
		store.writer.transaction(async trx => {
			const sts = [
				seen('bounce.b.example', 'success', 'sts'),
				seen('bounce.b.example', 'certificate-expired', 'sts'),
			];
			const [good, bad] = sts as [TlsDay, TlsDay];
			await countTls(trx, [good, good, good, bad, seen('bounce.b.example', 'starttls-not-supported')]);
			await countTls(trx, [seen('silent.example', 'success')]);
			await savePolicy(trx, {
				...{domain: 'bounce.b.example', policyId: '1', mode: 'testing', mx: ['mail.b.example']},
				...{fetchedAt: '2026-01-01T00:00:00.000Z', expiresAt: '2099-01-08T00:00:00.000Z'},
			});
		}),
	);
	await inStore(b, store => store.writer.transaction(trx => countTls(trx, [seen('bounce.a.example', 'success')])));
	const daemonB = await b.serve();
	// B looked before A listened: what did not go out is tried again, here by another start.
	await waitFor('the first try', async () =>
		inStore(b, async store => (await store.reader('tls_reports_sent').first())?.error ?? null),
	);
	await daemonB.stop();
	await inStore(b, store =>
		store.writer.transaction(async trx => void (await trx('tls_reports_sent').update({due_at: '2000'}))),
	);
	const daemonA = await a.serve();
	await b.serve();
	await waitFor('the report of B', async () => (await eventsOf(b, 'tls_report_sent')).length === 1);
	await waitFor('the report of B at A', async () => (await eventsOf(a, 'inbound_read')).length === 1);
	const [, line] = /^TLS to us +(.*)$/m.exec(String(await a.cliBytes('domain', 'dmarc', 'a.example'))) ?? [];
	t.is(line, '1 connection, 0 failed');
	t.deepEqual((await eventsOf(b, 'tls_report_sent'))[0]?.to, ['tlsrpt@bounce.a.example'], 'the other address fails');

	// A looked before B came back.
	await daemonA.stop();
	await inStore(a, store =>
		store.writer.transaction(
			async trx => void (await trx('tls_reports_sent').whereNull('sent_at').update({due_at: '2000'})),
		),
	);
	const again = await a.serve();
	await waitFor('the report of A', async () => (await eventsOf(a, 'tls_report_sent')).length === 1);
	await waitFor('the report of A at B', async () => (await eventsOf(b, 'inbound_read')).length === 1);
	t.like((await eventsOf(b, 'inbound_read'))[0], {kind: 'tls', fault: null, kept: null});
	await again.stop();
	const third = await a.serve();
	await third.stop();
	t.is((await eventsOf(a, 'tls_report_sent')).length, 1, 'once');

	const seenByB = await b.cli<{reported: readonly object[]; failures: readonly object[]; counted: readonly object[]}>(
		'tls',
	);
	const ofB = {domain: 'bounce.b.example', total: 5};
	t.deepEqual(seenByB, {
		...{days: 30, records: []},
		reported: [
			{...ofB, host: null, policy: 'no-policy-found', result: 'starttls-not-supported', count: 1},
			{...ofB, host: null, policy: 'sts', result: 'certificate-expired', count: 1},
			{...ofB, host: null, policy: 'sts', result: 'success', count: 3},
		],
		failures: ['starttls-not-supported, 1 to mail.b.example', 'certificate-expired, 1 to mail.b.example'].map(
			failure => ({
				...{day: yesterday, domain: 'bounce.b.example', org: 'a.example', signed_by: 'a.example', failure},
			}),
		),
		counted: [
			{
				...{domain: 'bounce.a.example', host: 'mail.a.example', policy: 'no-policy-found'},
				...{result: 'success', count: 1, total: 1},
			},
		],
	});
	t.deepEqual((await b.cli<typeof seenByB>('tls', '--days', '1')).reported, [], 'yesterday is not today');

	await inStore(b, async store => {
		const counts = await store
			.reader('tls_report_days')
			.orderBy(['policy', 'result'])
			.select('domain', 'policy', 'result', 'n');
		t.deepEqual(counts, [
			{domain: 'bounce.b.example', policy: 'no-policy-found', result: 'starttls-not-supported', n: 1},
			{domain: 'bounce.b.example', policy: 'sts', result: 'certificate-expired', n: 1},
			{domain: 'bounce.b.example', policy: 'sts', result: 'success', n: 3},
		]);
		t.like(await store.reader('tls_reports').first(), {
			...{
				org: 'a.example',
				signed_by: 'a.example',
				report_id: `${yesterday}T00:00:00Z_bounce.b.example@mail.a.example`,
			},
			failures: JSON.stringify([
				'starttls-not-supported, 1 to mail.b.example',
				'certificate-expired, 1 to mail.b.example',
			]),
		});
	});
	await inStore(a, async store => {
		const sent = await store.reader('tls_reports_sent').orderBy('domain').select('domain', 'error');
		t.deepEqual(sent, [
			{domain: 'bounce.b.example', error: null},
			{domain: 'silent.example', error: null},
		]);
	});
	t.is((await a.cli<readonly unknown[]>('message', 'list')).length, 0, 'no message of a customer');
});
