import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import createKnex from 'knex';
import {engines, temporaryFolder} from '../helpers/databases.ts';
import {type Fleet, type FleetNode, maxSessions, startFleet} from '../helpers/fleet.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** Less than two nodes would use without it, so that three cannot have as many each. */
const cap = 6;
const orders = 60;

test('nodes sharing a mail server never exceed its connection limit, even as one is killed and one joins', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600_000);
	const {fleet, database, sharedBy} = await startSharing(t, 3);
	const [one, two, three] = fleet.nodes as [FleetNode, FleetNode, FleetNode];

	await one.start();
	await fleet.order(orders);
	const alone = fleet.mx.maxOpen();
	t.true(alone > 1 && alone <= maxSessions, `a node alone has all of it: ${alone}`);

	// The second joins while the first has them all, the third joins under load, and one dies.
	await two.start();
	let isEnough = false;
	const load = fleet.orderUntil(() => isEnough);
	await sharedBy(2);
	await three.start();
	await sharedBy(3);

	// A node that hangs may have its sessions open still: nobody gets its part.
	two.away = true;
	two.daemon().signal('SIGSTOP');
	await waitFor('its term is over, and others have renewed theirs since', async () => {
		const terms = await database('lease_terms').orderBy('until').pluck('until');
		return terms.length === 3 && Number(terms[0]) < Date.now() - 2000 && Number(terms[1]) > Date.now();
	});
	two.daemon().signal('SIGCONT');
	two.away = false;

	one.away = true;
	await one.daemon().kill();
	await sharedBy(2);
	await one.start();
	await sharedBy(3);
	isEnough = true;
	await load;
	const twice = await fleet.arrived();
	t.log(`${fleet.answers.size} orders, ${twice} mails twice, at most ${fleet.mx.maxOpen()} connections at once`);
	t.is(fleet.mx.maxOpen(), cap);
	t.true(twice <= maxSessions, `${twice} came twice`);

	// Who stops leaves nothing behind, and who is left has all.
	t.is(await two.daemon().stop(), 0);
	t.is(await three.daemon().stop(), 0);
	await sharedBy(1);
	t.is(await one.daemon().stop(), 0);
	t.deepEqual(await database('lease_terms').select(), []);
});

test('nodes stop sending when their leases expire while PostgreSQL is silent, so the limit holds', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600_000);
	const {fleet, database, sharedBy} = await startSharing(t, 2);
	await Promise.all(fleet.nodes.map(node => node.start()));
	let isEnough = false;
	const load = fleet.orderUntil(() => isEnough);
	await sharedBy(2);
	for (const {proxy} of fleet.nodes) {
		proxy.mute();
	}
	await waitFor('their terms are over', async () => {
		const [row] = await database('lease_terms').max('until as until');
		return Number(row?.until) < Date.now();
	});
	await waitFor('no connection to the host is open', () => fleet.mx.open() === 0);
	const before = fleet.mx.received.length;
	for (const {proxy} of fleet.nodes) {
		proxy.unmute();
	}
	await sharedBy(2);
	await waitFor('mail flows again', () => fleet.mx.received.length > before + orders);
	isEnough = true;
	await load;
	const twice = await fleet.arrived();
	t.log(`${fleet.answers.size} orders, ${twice} mails twice, at most ${fleet.mx.maxOpen()} connections at once`);
	t.true(fleet.mx.maxOpen() <= cap, `${fleet.mx.maxOpen()} connections`);
	t.true(twice <= 2 * maxSessions, `${twice} came twice`);
});

test('a suspension caused by a reply to one node applies to the others at once', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600_000);
	let refusals = 0;
	const {fleet, database, sharedBy} = await startSharing(t, 2, {
		reactions: [{text: 'come back* tomorrow', suspend: '2h'}],
		rcpt() {
			refusals--;
			return refusals === 0 ? '450 4.2.0 come back, please, tomorrow' : undefined;
		},
	});
	await Promise.all(fleet.nodes.map(node => node.start()));
	let isEnough = false;
	const load = fleet.orderUntil(() => isEnough);
	await sharedBy(2);
	refusals = 1;
	const suspended = async () =>
		(await database('lane_waits').where({destination: 'a.example', waits_for: 'suspension'}).distinct('node'))
			.length;
	await waitFor('both nodes say that it is left alone', async () => (await suspended()) === 2);
	isEnough = true;
	await load;
	await waitFor('no connection is open', () => fleet.mx.open() === 0);
	const before = fleet.mx.connections.length;
	await fleet.order(orders);
	for (const node of fleet.nodes) {
		await simulate(fleet, node);
	}
	t.is(fleet.mx.connections.length, before, 'only one of them was told, and none has come since');
	const waiting = await database('queue').count('* as n').first();
	t.is(Number(waiting?.n), fleet.answers.size - fleet.mx.received.length, 'all of it waits');
});

/** Checks that a message accepted by a node after all others is delivered. */
async function simulate({shop}: Fleet, node: FleetNode): Promise<void> {
	const {url} = node.daemon();
	const mail = {from: shop.from, to: 'delivered@simulator.test', templateId: shop.templates.get('alert')};
	const {id} = (await call(`${url}/v1/messages`, shop.key, mail)).body as {id: string};
	const status = async () => ((await call(`${url}/v1/messages/${id}`, shop.key)).body as {status: string}).status;
	await waitFor('the simulator has it', async () => (await status()) === 'delivered');
}

/** Nodes with a limit on connections to the one mail server; none is started. */
async function startSharing(
	t: ExecutionContext,
	nodes: number,
	{reactions, rcpt}: {readonly reactions?: readonly object[]; readonly rcpt?: () => string | undefined} = {},
) {
	const file = join(await temporaryFolder(t), 'destinations.json');
	await writeFile(file, JSON.stringify({default: {connections: cap, startConnections: cap, reactions}}));
	const machine = {MAILCTL_DESTINATIONS_FILE: file};
	const fleet = await startFleet(
		t,
		Array.from({length: nodes}, () => machine),
		rcpt ? {rcpt} : {},
	);
	const database = createKnex({client: 'pg', connection: fleet.url, pool: {min: 0, max: 1}});
	t.teardown(() => database.destroy());
	const sharedBy = async (count: number) =>
		await waitFor(`${count} nodes divide it`, async () => {
			const known: string[] = await database('lease_terms').pluck('knows');
			return known.length === count && known.every(knows => knows.split(' ').length === count);
		});
	return {fleet, database, sharedBy};
}
