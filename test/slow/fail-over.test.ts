import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {engines} from '../helpers/databases.ts';
import {type FleetNode, maxSessions, readiness, startFleet} from '../helpers/fleet.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {startReplicatedPostgres} from '../helpers/replicated-postgres.ts';
import {waitFor} from '../helpers/wait.ts';

const orders = 40;

test('loses nothing when the PostgreSQL primary is killed under load and its replica takes over', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600_000);
	const postgres = await startReplicatedPostgres(t);
	const fleet = await startFleet(t, [{}, {}], {database: postgres.url});
	const nodes = fleet.nodes as [FleetNode, FleetNode];
	await Promise.all(nodes.map(node => node.start()));
	const everyNodeSays = async (status: number) => {
		const all = await Promise.all(nodes.map(readiness));
		return all.every(one => one.status === status);
	};
	await fleet.order(orders);
	let isEnough = false;
	const load = fleet.orderUntil(() => isEnough);
	await waitFor('mail flows', () => fleet.mx.received.length > 2 * orders);

	await postgres.killPrimary();
	await waitFor('every node knows', async () => await everyNodeSays(503));
	// The address moves first: a replica that can only be read is no database yet.
	for (const {proxy} of nodes) {
		proxy.moveTo(postgres.replicaPort);
	}
	const standing = await openStore({url: postgres.replicaUrl});
	const refusal = await t.throwsAsync(standing.writer.transaction(trx => trx('workspaces').update({locale: 'de'})));
	t.true(standing.dialect.isUnavailable(refusal), String(refusal));
	await standing.close();
	t.true(await everyNodeSays(503));
	const before = fleet.answers.size;
	await postgres.promote();
	const began = performance.now();
	await waitFor('every node is ready again', async () => await everyNodeSays(200));
	const ready = Math.round(performance.now() - began);
	await waitFor('orders are taken again', () => fleet.answers.size > before + orders);
	isEnough = true;
	await load;
	const twice = await fleet.arrived();
	t.log(`ready ${ready} ms after the promotion; ${fleet.answers.size} orders, ${twice} mails twice`);
	t.true(twice <= nodes.length * maxSessions, `${twice} came twice`);
	t.true(
		[...fleet.answers.values()].every(({size}) => size === 1),
		'each order is one message',
	);
	for (const node of nodes) {
		t.is(await node.daemon().stop(), 0);
	}
});
