import {readFile} from 'node:fs/promises';
import {join} from 'node:path';
import process from 'node:process';
import test from 'ava';
import createKnex from 'knex';
import {eventsOf} from '../helpers/daemon.ts';
import {engines} from '../helpers/databases.ts';
import {type FleetNode, maxSessions, readiness, startFleet, trySend} from '../helpers/fleet.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {recipientRows} from '../helpers/recipient-rows.ts';
import {call, eachOf} from '../helpers/shop.ts';
import {skewedBy} from '../helpers/skewed.ts';
import {waitFor} from '../helpers/wait.ts';

/**
 * The factor of messages compared with the run at every commit:
 * `NODES_SCALE=10 node dist/test/run.js dist/test/slow/three-nodes.test.js`.
 */
const scale = Number(process.env.NODES_SCALE ?? 1);
const orders = 30 * scale;
const allOrders = 12 * orders;
/** The quota left after all have been sent. */
const room = 10;
// Much more than is promised (2 s and 5 s): a machine that stands still for some seconds must not fail the test.
const answerLimit = 15_000;
// A node that is silent is taken for dead after 6 s where its connection has ended, else after 30 s.
const deadLimit = 120_000;

type Usage = {readonly accepted: number};

test('three nodes on one PostgreSQL survive clock skew, kills, freezes, network cuts and restarts', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const [ahead, behind] = [skewedBy('+60s'), skewedBy('-3600s')];
	if (!ahead || !behind) {
		notRunHere(t, 'libfaketime is not installed (scripts/debian-peers.sh installs it)');
		return;
	}
	t.timeout(600_000 * scale);
	const fleet = await startFleet(t, [{}, behind, ahead]);
	const [one, two, three] = fleet.nodes as [FleetNode, FleetNode, FleetNode];
	const database = createKnex({client: 'pg', connection: fleet.url, pool: {min: 0, max: 1}});
	t.teardown(() => database.destroy());
	const bootOf = async ({program}: FleetNode) =>
		(await readFile(join(program.folder, 'data', 'boot'), 'utf8')).trim();
	const claimsOf = async (boot: string) => {
		const held = await recipientRows(database).where({claimed_by: boot}).pluck('id');
		return held.length;
	};
	const passed = (what: string) => t.log(`${what}: ${fleet.answers.size} orders, ${fleet.mx.received.length} mails`);

	const [workspace] = await one.program.cli<Array<{id: string}>>('workspace', 'list');
	await one.program.cli('workspace', 'update', workspace?.id ?? '', '--monthly-quota', String(allOrders + room));

	// Skew. The third, a minute ahead, comes when the others hold mail: its first beat judges them.
	await Promise.all([one.start(), two.start()]);
	await Promise.all([fleet.order(3 * orders), three.start()]);
	t.is(await fleet.arrived(), 0, 'a wrong clock sends nothing twice');
	const skews = await Promise.all([two, three].map(({program}) => eventsOf(program, 'clock_skew')));
	t.deepEqual(
		skews.map(([first]) => Math.round(Number(first?.ahead_seconds) / 10)),
		[-360, 6],
	);
	passed('skewed');

	// A kill. What it held is given back by its next start, not after half a minute.
	const killedBoot = await bootOf(one);
	const load = fleet.order(3 * orders);
	await waitFor('it holds mail', async () => (await claimsOf(killedBoot)) > 0);
	one.away = true;
	await one.daemon().kill();
	const left = await claimsOf(killedBoot);
	await one.start();
	t.is(await claimsOf(killedBoot), 0, 'its own claims are given back at once');
	await load;
	const afterKill = await fleet.arrived();
	t.true(afterKill <= maxSessions, `${afterKill} came twice`);
	passed(`killed with ${left} claims, ${afterKill} twice`);

	// A freeze, longer than a node may be silent. Its sessions go on when it wakes; the others have its mail by then.
	const frozenBoot = await bootOf(two);
	const frozenLoad = fleet.order(2 * orders);
	await waitFor('it holds mail', async () => (await claimsOf(frozenBoot)) > 0);
	two.away = true;
	two.daemon().signal('SIGSTOP');
	await frozenLoad;
	await waitFor(
		'it is taken for dead',
		async () => !(await database('nodes').where({id: frozenBoot}).first()),
		deadLimit,
	);
	await fleet.arrived();
	two.daemon().signal('SIGCONT');
	await waitFor('it is back', async () => await database('nodes').where({id: frozenBoot}).first());
	two.away = false;
	await fleet.order(orders);
	const afterFreeze = (await fleet.arrived()) - afterKill;
	t.true(afterFreeze <= maxSessions, `${afterFreeze} came twice`);
	passed(`frozen, ${afterFreeze} twice`);

	// A cut without a word: the server's connections neither answer nor end.
	const cutLoad = fleet.order(2 * orders);
	three.proxy.mute();
	const [sent, ready] = await Promise.all([trySend(fleet, three), readiness(three)]);
	t.deepEqual([sent.status, ready.status], [503, 503]);
	t.true(sent.ms < answerLimit && ready.ms < answerLimit);
	const again = await trySend(fleet, three);
	t.is(again.status, 503);
	three.proxy.unmute();
	const began = performance.now();
	await waitFor('it is ready again', async () => (await readiness(three)).status === 200, answerLimit);
	const recovery = Math.round(performance.now() - began);
	await cutLoad;
	const afterCut = (await fleet.arrived()) - afterKill - afterFreeze;
	t.is(afterCut, 0, 'a cut that ends in time sends nothing twice');
	t.log(
		`cut off: 503 after ${Math.round(sent.ms)} ms, ready: 503 after ${Math.round(ready.ms)} ms, back in ${recovery} ms`,
	);
	passed('cut off');

	// Every connection ends at once.
	const endLoad = fleet.order(orders);
	await database.raw(
		'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
	);
	await endLoad;
	t.is((await fleet.arrived()) - afterKill - afterFreeze, 0, 'connections that end send nothing twice');
	passed('connections ended');

	// Exactly as many as there were orders, each one message however often it was sent, and not one above the quota.
	t.true([...fleet.answers.values()].every(({size}) => size === 1));
	const {accepted} = (await call(`${one.daemon().url}/v1/usage`, fleet.shop.key)).body as Usage;
	t.deepEqual([accepted, fleet.answers.size], [allOrders, allOrders]);
	const statuses: number[] = [];
	await eachOf(
		Array.from({length: 4 * room}, (_, n) => fleet.nodes[n % 3] as FleetNode),
		12,
		async node => {
			statuses.push((await trySend(fleet, node)).status);
		},
	);
	t.is(statuses.filter(status => status === 202).length, room, statuses.join(' '));

	// SIGTERM with a silent server ends it too, and at once where no outcome waits to be written.
	await waitFor(
		'the queue is empty',
		async () => !(await recipientRows(database).whereNotNull('next_attempt_at').first()),
	);
	three.proxy.mute();
	const stopping = performance.now();
	t.is(await three.daemon().stop(), 0);
	t.log(`stopped in ${Math.round(performance.now() - stopping)} ms with a silent server`);
	t.like((await eventsOf(three.program, 'stopped')).at(-1), {drained: true});
	t.is(await two.daemon().stop(), 0);
	t.is(await one.daemon().stop(), 0);
});
