import test from 'ava';
import {tlsTask} from '../../src/daemon/sweep.ts';
import {readTlsSums} from '../../src/resources/domains/reports-store.ts';
import {
	countTls,
	findPolicy,
	type StoredPolicy,
	savePolicy,
	type TlsDay,
} from '../../src/resources/domains/tls-store.ts';
import {storeTest} from '../helpers/databases.ts';

const policy: StoredPolicy = {
	domain: 'example.test',
	policyId: '1',
	mode: 'enforce',
	mx: ['mx.example.test', '*.example.test'],
	fetchedAt: '2026-11-21T10:00:00.000Z',
	expiresAt: '2026-11-28T10:00:00.000Z',
};

storeTest(test, 'stores a policy and replaces it with the next one', async (t, store) => {
	t.is(await findPolicy(store.reader, 'example.test'), null);
	const changed: StoredPolicy = {...policy, policyId: '2', mode: 'none', mx: []};
	for (const one of [policy, changed]) {
		await store.writer.transaction(trx => savePolicy(trx, one));
		t.deepEqual(await findPolicy(store.reader, 'example.test'), one);
	}
});

const good: TlsDay = {
	day: '2026-11-21',
	domain: 'example.test',
	policy: 'sts',
	host: 'mx.example.test',
	result: 'success',
};

storeTest(test, 'counts TLS results by day, domain, policy, mail server and result', async (t, store) => {
	const bad: TlsDay = {...good, result: 'certificate-expired'};
	const odd: TlsDay = {...good, host: 'a "host", with\0 odd letters\n', policy: 'no-policy-found'};
	await store.writer.transaction(trx => countTls(trx, [good, bad, good, odd]));
	await store.writer.transaction(trx => countTls(trx, [good, {...good, day: '2026-11-22'}]));
	await store.writer.transaction(trx => countTls(trx, []));
	const rows = await store.reader('tls_days').orderBy(['day', 'policy', 'result']).select('day', 'result', 'n');
	t.deepEqual(rows, [
		{day: '2026-11-21', result: 'success', n: 1},
		{day: '2026-11-21', result: 'certificate-expired', n: 1},
		{day: '2026-11-21', result: 'success', n: 3},
		{day: '2026-11-22', result: 'success', n: 1},
	]);
	const other: TlsDay = {...good, domain: 'other.test', host: 'mx.other.test'};
	await store.writer.transaction(trx =>
		countTls(trx, [other, other, {...other, day: '2026-11-20', result: 'dnssec-invalid'}]),
	);
	const sums = await readTlsSums(store.reader, 'tls_days', {since: '2026-11-21', limit: 4});
	t.deepEqual(
		sums.map(({domain, policy, result, count, total}) => [domain, policy, result, count, total]),
		[
			['example.test', 'sts', 'certificate-expired', 1, 6],
			['example.test', 'sts', 'success', 4, 6],
			['other.test', 'sts', 'success', 2, 2],
			['example.test', 'no-policy-found', 'success', 1, 6],
		],
		'failures first, then what is most',
	);
	const [first] = await readTlsSums(store.reader, 'tls_days', {since: '2026-11-21', limit: 1});
	t.like(first, {host: good.host, total: 6});
});

storeTest(test, 'the sweep removes expired policies and old counts', async (t, store) => {
	await store.writer.transaction(async trx => {
		await savePolicy(trx, policy);
		await savePolicy(trx, {...policy, domain: 'b.test', expiresAt: '2026-11-21T11:00:00.000Z'});
		await savePolicy(trx, {...policy, domain: 'c.test', expiresAt: '2026-11-21T11:00:00.000Z'});
		const days = ['2026-05-20', '2026-05-24', '2026-05-26', '2026-11-21'];
		await countTls(
			trx,
			days.map(day => ({...good, day})),
		);
	});
	const clock = {now: () => Date.parse('2026-11-21T12:00:00.000Z')};
	const step = tlsTask({store, clock, rowsPerStep: 1}).begin();
	let steps = 1;
	while (await step()) {
		steps += 1;
	}

	t.is(steps, 3);
	t.deepEqual(await store.reader('mta_sts').pluck('domain'), ['example.test']);
	t.deepEqual(await store.reader('tls_days').orderBy('day').pluck('day'), ['2026-05-26', '2026-11-21']);
});
