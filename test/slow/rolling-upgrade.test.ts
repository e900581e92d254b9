import {randomBytes} from 'node:crypto';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {refused} from '../helpers/cli.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {startMx} from '../helpers/delivering-to.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call, eachOf, openShop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const sends = 60;

test('a node runs and starts on a newer schema with only additions, and refuses an incompatible one', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const {mx, settings: lab} = await startMx(t, {});
	const settings = {
		...lab,
		MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
		MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		MAILCTL_MAKERS: '1',
	};
	const [former, restarted] = [await prepareProgram(t, settings), await prepareProgram(t, settings)];
	const shop = await openShop(former, 'test/fixtures/flow/templates');
	const daemon = await former.serve();
	const store = await openStore(location);
	t.teardown(() => store.close());

	let accepted = 0;
	const order = async (url: string) =>
		await eachOf(
			Array.from({length: sends}, (_, n) => `user-${n}@a.example`),
			8,
			async to => {
				const body = {from: shop.from, to, templateId: shop.templates.get('alert')};
				const {status} = await call(`${url}/v1/messages`, shop.key, body);
				t.is(status, 202);
				accepted++;
			},
		);

	// What the program of the next version leaves in the store, while this one takes mail and sends it.
	const future = {name: '999_future', applied_at: '2026-11-23T00:00:00.000Z'};
	await Promise.all([
		order(daemon.url),
		// One after the other: a transaction that alters several can meet a deadlock, and is repeated (migrate.ts).
		(async () => {
			for (const table of ['messages', 'recipients', 'nodes', 'api_keys', 'workspaces']) {
				await store.database.schema.alterTable(table, columns => columns.text('of_the_future'));
			}
			await store.database('migrations').insert({...future, effect: 'additive'});
		})(),
	]);
	await order(daemon.url);
	const again = await restarted.serve();
	await order(again.url);
	await waitFor('every mail has arrived', () => mx.received.length === accepted);
	t.is(mx.received.length, 3 * sends);
	t.is(await again.stop(), 0);

	await store.database('migrations').where({name: future.name}).update({effect: 'breaking'});
	refused(t, await restarted.run('serve'), 78, /was created by a newer version: install that version/);
	await store.database('migrations').where({name: future.name}).delete();
	t.is(await daemon.stop(), 0);
});
