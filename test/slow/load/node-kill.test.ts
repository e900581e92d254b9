import {readFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import createKnex from 'knex';
import {engines} from '../../helpers/databases.ts';
import {type FleetNode, maxSessions, startFleet} from '../../helpers/fleet.ts';
import {scaled} from '../../helpers/load-scale.ts';
import {notRunHere} from '../../helpers/not-run-here.ts';
import {waitFor} from '../../helpers/wait.ts';

const kills = scaled(20);
const takeOverLimit = 120_000;

test('repeated kill -9 of one of three nodes loses nothing, and the others take over its work', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(120_000 + kills * 60_000);
	const fleet = await startFleet(t, [{}, {}, {}]);
	await Promise.all(fleet.nodes.map(node => node.start()));
	const database = createKnex({client: 'pg', connection: fleet.url, pool: {min: 0, max: 1}});
	t.teardown(() => database.destroy());
	/** The number of recipients claimed by this run of a node. */
	const claimsOf = async (boot: string) => {
		const held: string[] = await database('claims').where({claimed_by: boot}).pluck('recipient_id');
		return held.length;
	};

	const times: Record<'left' | 'returned', number[]> = {left: [], returned: []};
	const again: number[] = [];
	let twice = 0;
	for (let kill = 0; kill < kills; kill++) {
		const victim = fleet.nodes[kill % fleet.nodes.length] as FleetNode;
		const boot = (await readFile(join(victim.program.folder, 'data', 'boot'), 'utf8')).trim();
		let isEnough = false;
		const load = fleet.orderUntil(() => isEnough);
		await waitFor('it holds mail', async () => (await claimsOf(boot)) > 0);
		victim.away = true;
		await victim.daemon().kill();
		const began = performance.now();
		const returns = kill % 2 === 1;
		// What it held goes on: given back by its own next start, or by another node once it is taken for dead.
		await (returns && victim.start());
		await waitFor('others have its work', async () => (await claimsOf(boot)) === 0, takeOverLimit);
		times[returns ? 'returned' : 'left'].push(Math.round(performance.now() - began));
		await (returns || victim.start());
		isEnough = true;
		await load;
		const all = await fleet.arrived();
		again.push(all - twice);
		twice = all;
	}
	t.log(`${fleet.answers.size} orders, ${fleet.mx.received.length} mails; again after each kill: ${again.join(' ')}`);
	t.log(`its work went on after ${times.left.join(' ')} ms; where it returned after ${times.returned.join(' ')} ms`);
	t.true(
		again.every(count => count <= maxSessions),
		`duplicates after each kill: ${again.join(' ')}`,
	);
	t.true(
		[...fleet.answers.values()].every(({size}) => size === 1),
		'each order is one message',
	);
});
