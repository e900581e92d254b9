import {randomBytes} from 'node:crypto';
import {mkdtempSync, readdirSync, rmSync, statSync} from 'node:fs';
import {readdir} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {Bench, Figures} from '../../src/cli/bench/measures.ts';
import {plain} from '../../src/cli/bench/throw-away.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {startAccountedSink} from '../bench/accounted-sink.ts';
import {manyDomains, startHosts} from '../bench/hosts.ts';
import {large, measureAccounted} from '../bench/measures.ts';
import {reluctanceTo} from '../bench/replies.ts';
import {refused, storelessCli} from '../helpers/cli.ts';
import {engines, newLocation} from '../helpers/databases.ts';

type Measured = Readonly<Record<'accept' | 'through', Figures>> & Readonly<Record<string, unknown>>;

test('bench prints plausible figures and leaves the store of the service unchanged', async t => {
	t.timeout(240_000);
	const cli = await storelessCli(t);
	const measured = await cli.json<Measured>('bench', '--messages', '200', '--connections', '8');
	t.like(measured, {messages: 200, connections: 8, accept: {refused: 0}, through: {refused: 0, lost: 0}});
	const rates = [measured.accept.accepted_per_s, measured.through.accepted_per_s, measured.through.end_to_end_per_s];
	t.true(
		rates.every(rate => Number(rate) > 0),
		JSON.stringify(measured),
	);
	t.true((measured.accept.p50_ms as number) <= (measured.accept.p99_ms as number));
	t.deepEqual(await readdir(join(cli.folder, 'data')), []);
});

function newBench(t: ExecutionContext, bench: Pick<Bench, 'workload' | 'messages' | 'settings'>): Bench {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-bench-'));
	t.teardown(() => rmSync(folder, {recursive: true, force: true}));
	const tools = {
		clock: systemClock,
		newId: createIdSource(systemClock),
		random: randomBytes,
		operator: {actor: 'bench', from: 'localhost'},
	};
	return {folder, tools, connections: 8, ...bench};
}

test('larger messages arrive, and every one is accounted for', async t => {
	t.timeout(240_000);
	const sink = await startAccountedSink();
	t.teardown(sink.stop);
	const bench = newBench(t, {workload: large, messages: 100, settings: sink.settings});
	const through = await measureAccounted(bench, sink);
	t.like(through, {refused: 0, accepted: 100, delivered: 100, delivered_later: 0, bounced: 0});
	t.like(through, {lost: 0, twice: 0, misrecorded: 0});
	const latencies = ['', 'delivered_'].map(prefix =>
		['p50', 'p90', 'p99', 'max'].map(at => through[`${prefix}${at}_ms`]),
	);
	for (const ascending of latencies) {
		t.deepEqual(
			ascending,
			ascending.toSorted((a, b) => Number(a) - Number(b)),
		);
		t.true(Number(ascending[0]) > 0);
	}
	t.true(Number(through.delivered_p50_ms) > Number(through.p50_ms));
});

test('with realistic replies deferred messages arrive and refused ones bounce, as the seed determines', async t => {
	t.timeout(240_000);
	const [messages, seed] = [300, 7];
	const hosts = await startHosts(seed);
	t.teardown(hosts.stop);
	const workload = {...plain, ...manyDomains};
	const through = await measureAccounted(newBench(t, {workload, messages, settings: hosts.settings}), hosts);
	const {domains} = manyDomains;
	const met = Array.from({length: messages}, (_, n) => reluctanceTo(`user${n}@d${n % domains}.example`, seed)?.name);
	const refused = met.filter(name => name === 'refused').length;
	const reluctant = met.filter(name => name !== undefined).length - refused;
	t.true(refused > 0 && reluctant > 0);
	t.like(through, {refused: 0, accepted: messages, delivered: messages - refused, bounced: refused});
	t.like(through, {lost: 0, twice: 0, misrecorded: 0});
	// A busy machine may have a try end for another reason.
	t.true((through.delivered_later as number) >= reluctant, JSON.stringify(through));
});

test('bench --fill leaves the rows of real traffic in the named workspace', async t => {
	const cli = await storelessCli(t);
	const {id} = await cli.json<{id: string}>('workspace', 'create', '--name', 'shop');
	const messages = 12_000;
	const filled = await cli.json('bench', '--fill', String(messages), '--workspace', 'shop');
	t.like(filled, {messages, workspaces: 1});
	const store = await cli.store();
	const count = async (table: string) => Number((await store.reader(table).count('* as n').first())?.n);
	t.is(await count('messages'), messages);
	t.is(await count('recipients'), messages);
	t.is(await count('events'), messages);
	t.is(await count('attempts'), messages);
	const states = await store
		.reader('recipients')
		.where({workspace_id: id})
		.select('state')
		.count('* as n')
		.groupBy('state');
	const bounced = Number(states.find(({state}) => state === 'bounced')?.n);
	t.true(bounced > 0.02 * messages && bounced < 0.04 * messages, String(bounced));
	// An address may bounce twice.
	const suppressed = await count('suppressions');
	t.true(suppressed <= bounced && suppressed > 0.9 * bounced, String(suppressed));

	const [newest] = await cli.json<Array<{id: string}>>('message', 'list', '--status', 'delivered', '--limit', '1');
	const shown = await cli.json<{message: object; events: Array<{type: string}>}>('message', 'show', newest?.id ?? '');
	t.like(shown.message, {status: 'delivered', template_name: 'bench-receipt'});
	t.deepEqual(
		shown.events.map(({type}) => type),
		['accepted', 'queued', 'sent', 'delivered'],
	);
});

test('bench --fill --waiting queues messages, of many workspaces if none is named', async t => {
	const cli = await storelessCli(t);
	t.like(await cli.json('bench', '--fill', '500', '--waiting'), {messages: 500, workspaces: 200});
	const summary = await cli.json<Array<{ready: number; deferred: number}>>('queue', 'summary');
	t.is(
		summary.reduce((sum, {ready, deferred}) => sum + ready + deferred, 0),
		500,
	);
});

for (const engine of engines) {
	test(`init and bench --fill create data files readable by the owner only (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const key = Buffer.alloc(32, 7).toString('base64');
		const cli = await storelessCli(t, {
			...('url' in location && {MAILCTL_DATABASE_URL: location.url, MAILCTL_SECRET_KEY: key}),
		});
		const data = join(cli.folder, 'data');
		for (const words of [['init'], ['bench', '--fill', '10'], ['workspace', 'use', 'default']]) {
			t.is((await cli.run(...words)).code, 0);
			for (const name of readdirSync(data)) {
				t.is(statSync(join(data, name)).mode & 0o077, 0, `${words} ${name}`);
			}
		}
	});
}

test('bench --fill is refused beside a daemon', async t => {
	const cli = await storelessCli(t);
	const daemon = await cli.serve();
	refused(t, await cli.run('bench', '--fill', '10'), 75, /another daemon is running/);
	await daemon.stop();
});
