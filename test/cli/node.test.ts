import {randomBytes} from 'node:crypto';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {newCli} from '../helpers/cli.ts';
import {engines, newLocation} from '../helpers/databases.ts';

type Listed = {readonly pid: number; readonly roles: string[]; readonly state: string; readonly seen_at: string};

test('node list with SQLite prints the one daemon, or how to start it', async t => {
	const cli = await newCli(t);
	await cli.run('init');
	t.is(await cli.text('node', 'list'), 'no nodes; start one with mailctl serve\n');
	const daemon = await cli.serve();
	const [node, ...others] = await cli.json<Listed[]>('node', 'list');
	t.like(node, {id: null, state: 'running', roles: ['api', 'deliver', 'webhook', 'inbound'], started_at: null});
	t.is(others.length, 0);
	await daemon.stop();
	t.deepEqual(await cli.json('node', 'list'), []);
});

if (engines.includes('postgres')) {
	test('node list with PostgreSQL prints the roles of each node and which is silent', async t => {
		const location = await newLocation(t, 'postgres');
		const cli = await newCli(t, {
			MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
			MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
			MAILCTL_ROLES: 'api,deliver',
		});
		const daemon = await cli.serve();
		const [running, ...none] = await cli.json<Listed[]>('node', 'list');
		t.like(running, {state: 'running', roles: ['api', 'deliver']});
		t.is(none.length, 0);
		const text = await cli.text('node', 'list');
		t.regex(text, /^HOST +PID +VERSION +ROLES +STATE +STARTED\n/);
		t.true(text.split('\n').every(line => line.length <= 80));
		await daemon.stop();

		// Another node would soon give a silent one up for dead.
		const store = await openStore(location);
		const long = {roles: 'inbound', version: '0.0.9', started_at: '2026-01-01T00:00:00.000Z'};
		await store.database('nodes').insert({id: 'req_old', host: 'a', pid: 7, ...long, seen_at: long.started_at});
		await store.close();
		const [silent] = await cli.json<Listed[]>('node', 'list');
		t.like(silent, {
			id: 'req_old',
			version: '0.0.9',
			roles: ['inbound'],
			state: 'silent',
			seen_at: long.started_at,
		});
	});
}
