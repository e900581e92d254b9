import test, {type ExecutionContext} from 'ava';
import {openStore, type Store} from '../../src/store/store.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {startTcpProxy, type TcpProxy} from '../helpers/tcp-proxy.ts';
import {waitFor} from '../helpers/wait.ts';

// The interface promises 5 s, but a machine that pauses for some seconds must not fail the test.
const soon = 15_000;

/** A store behind a proxy; `null` without PostgreSQL. */
async function behindProxy(t: ExecutionContext): Promise<{store: Store; proxy: TcpProxy} | null> {
	if (!engines.includes('postgres')) {
		return notRunHere(t, 'no PostgreSQL (npm test starts one)');
	}
	const location = await newLocation(t, 'postgres');
	const url = new URL('url' in location ? location.url : '');
	const proxy = await startTcpProxy(t, {host: url.hostname, port: Number(url.port)});
	url.port = String(proxy.port);
	const store = await openStore({url: url.href});
	t.teardown(() => store.close());
	return {store, proxy};
}

async function failure(work: PromiseLike<unknown>): Promise<{error: unknown; ms: number}> {
	const began = performance.now();
	const error = await Promise.resolve(work).then(
		() => null,
		(error: unknown) => error,
	);
	return {error, ms: performance.now() - began};
}

test('reads and writes fail as unavailable if the server goes silent, and recover with its successor', async t => {
	const lab = await behindProxy(t);
	if (!lab) {
		return;
	}
	const {store, proxy} = lab;
	const write = () => store.writer.transaction(async trx => void (await trx.raw('select 1')));
	const read = () => store.reader.raw('select 1');
	await Promise.all([write(), read(), read(), read(), read()]);

	proxy.mute();
	const ping = await failure(store.ping());
	t.true(store.dialect.isUnavailable(ping.error), String(ping.error));
	t.true(ping.ms < 10_000, `the ping took ${ping.ms} ms`);
	// More than there are connections: some wait for one.
	const failures = await Promise.all([write(), write(), ...Array.from({length: 8}, read)].map(failure));
	for (const {error, ms} of failures) {
		t.true(store.dialect.isUnavailable(error), String(error));
		t.true(ms < soon, `it took ${ms} ms`);
	}
	const next = await failure(write());
	t.true(store.dialect.isUnavailable(next.error), String(next.error));

	proxy.unmute();
	const began = performance.now();
	await waitFor('a write', () => failure(write()).then(({error}) => error === null), soon);
	await waitFor('a read', () => failure(read()).then(({error}) => error === null), soon);
	t.log(`${Math.round(performance.now() - began)} ms until the store worked again`);
	t.true(Math.abs(store.skew()) < soon);
});

test('closes a store whose server is silent', async t => {
	const lab = await behindProxy(t);
	if (!lab) {
		return;
	}
	const {store, proxy} = lab;
	await store.reader.raw('select 1');
	proxy.mute();
	const closed = await failure(store.close());
	t.is(closed.error, null);
	t.true(closed.ms < soon, `it took ${closed.ms} ms`);
});

test('opening times out if the server accepts connections but does not reply', async t => {
	const proxy = await startTcpProxy(t, {host: '127.0.0.1', port: 9});
	proxy.mute();
	const opened = await failure(openStore({url: `postgres://mailctl:test@127.0.0.1:${proxy.port}/postgres`}));
	t.like(opened.error, {code: 'ETIMEDOUT'});
});

test('limits the time of a statement, except for patient processes', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const [hurried, patient] = [await openStore(location), await openStore(location, {isPatient: true})];
	t.teardown(() => Promise.all([hurried.close(), patient.close()]));
	const limit = async (store: Store) => (await store.reader.raw('show statement_timeout')).rows[0].statement_timeout;
	t.is(await limit(hurried), '10s');
	t.is(await limit(patient), '0');
});

test('the next request works after the server has ended every connection', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const [store, other] = [await openStore(location), await openStore(location)];
	t.teardown(() => Promise.all([store.close(), other.close()]));
	const pids = async () => {
		const {rows} = await store.writer.transaction(trx => trx.raw('select pg_backend_pid() as pid'));
		return [rows[0].pid, (await store.reader.raw('select pg_backend_pid() as pid')).rows[0].pid];
	};
	for (let round = 0; round < 20; round++) {
		const before = await pids();
		await other.reader.raw('select pg_terminate_backend(pid) from unnest(?::int[]) as pid', [before]);
		const isGone = async () => !(await other.reader('pg_stat_activity').whereIn('pid', before).first());
		await waitFor('they are gone', isGone);
		const after = await pids();
		t.false(after.some(pid => before.includes(pid)));
	}
});
