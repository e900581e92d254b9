import test, {type ExecutionContext} from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {agreeToAlerts} from '../../../src/outcome/alert-consent.ts';
import {
	addAlert,
	addVouchedAlert,
	findMailRefusal,
	readStatus,
	removeAlert,
	testAlert,
	verifyAlert,
} from '../../../src/resources/alerts/rules.ts';
import {listAudit} from '../../../src/resources/audit/store.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {insertSuppressions} from '../../../src/resources/suppressions/store.ts';
import {migrate} from '../../../src/store/engine/migrate.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {insertWorkspace} from '../../helpers/messages.ts';
import {testTools, testVault} from '../../helpers/tools.ts';
import {newUser} from '../../helpers/users.ts';

const hour = 3_600_000;

async function start(t: ExecutionContext, store: Store) {
	const tools = testTools();
	const {workspaceId: acme} = await insertWorkspace(store, 'acme');
	const write = store.writer.transaction;
	const context = {face: 'api', mode: 'live', tools, vault: async () => testVault} as const;
	const add = async (target: string, workspaceId: string | null = acme, operation = addAlert) => {
		const {row} = await write(trx => performIn(operation, {...context, workspaceId, trx}, {way: 'mail', target}));
		return row;
	};
	const remove = (id: string) => write(trx => performIn(removeAlert, {...context, workspaceId: null, trx}, {id}));
	/** Runs one test alert; `writer` is the connection of one of the nodes. */
	const tryTest = async (id: string, writer = store.writer) => {
		try {
			await writer.transaction(trx => performIn(testAlert, {...context, workspaceId: acme, trx}, {id}));
			return 'sent';
		} catch (error) {
			t.true(error instanceof Refused, String(error));
			return (error as Refused).retryAfterMs;
		}
	};
	/** Returns the waiting confirmation emails and removes them. */
	const takeConfirmations = async (): Promise<string[]> => {
		const waiting: string[] = await store.database('alert_messages').orderBy('id').pluck('message');
		await store.database('alert_messages').delete();
		return waiting.map(message => JSON.parse(message).event);
	};
	return {...{tools, acme, write, context, add, remove, tryTest, takeConfirmations}};
}

storeTest(test, 'sends alert emails only to users, verified domains and confirmed addresses', async (t, store) => {
	const {tools, acme, write, context, add} = await start(t, store);
	const {workspaceId: other} = await insertWorkspace(store, 'other');
	await store.database('domains').where({workspace_id: other}).update({name: 'theirs.example'});
	await newUser(store, tools, {email: 'ann@mail.test', workspaceId: acme});
	await newUser(store, tools, {email: 'root@mail.test'});
	await newUser(store, tools, {email: 'bob@mail.test', workspaceId: other});
	// Added by an admin of the workspace, who can add any address.
	await newUser(store, tools, {email: 'victim@mail.test', by: acme});
	const statuses: Readonly<Record<string, string>> = {
		'Ann@Mail.test': 'active',
		'root@mail.test': 'active',
		'bob@mail.test': 'unconfirmed',
		'victim@mail.test': 'unconfirmed',
		'ops@shop.example': 'active',
		'ops@sub.shop.example': 'unconfirmed',
		'ops@theirs.example': 'unconfirmed',
		'someone@mail.test': 'unconfirmed',
	};
	for (const [target, status] of Object.entries(statuses)) {
		const row = await add(target);
		t.is(row.status, status as typeof row.status, target);
		t.is((await findMailRefusal(store.reader, row, false)) === null, status === 'active', target);
	}
	t.is((await add('someone@mail.test', null)).status, 'active', 'the installation has operators only');

	const row = await add('someone@mail.test');
	await write(trx => agreeToAlerts(trx, tools, {workspaceId: acme, address: 'someone@mail.test'}));
	t.is(await readStatus(store.reader, row), 'active');
	t.is((await add('someone@mail.test', other)).status, 'unconfirmed', 'an address agrees to one workspace');
	t.is((await add('vouched@mail.test', acme, addVouchedAlert)).status, 'active');
	const late = await add('late@mail.test');
	t.is(
		(await write(trx => performIn(verifyAlert, {...context, workspaceId: null, trx}, {id: late.id}))).status,
		'active',
	);

	const address = 'ops@shop.example';
	const suppression = {
		address,
		addressKey: address,
		reason: 'complaint',
		source: 'x',
		workspaceId: acme,
	} as const;
	const createdAt = storeTime(tools.clock.now());
	await write(trx => insertSuppressions(trx, [{...suppression, id: tools.newId('sup'), createdAt}]));
	const suppressed = await add('ops@shop.example');
	t.is(suppressed.status, 'suppressed');
	t.regex((await findMailRefusal(store.reader, suppressed, true)) ?? '', /suppression list/);
	await store.database('domains').where({workspace_id: acme}).update({state: 'failed'});
	t.is((await add('other@shop.example')).status, 'unconfirmed', 'the domain counts only while it is verified');
});

storeTest(test, 'limits confirmation emails per address, per workspace and in total', async (t, store) => {
	const {tools, acme, add, remove, tryTest, takeConfirmations} = await start(t, store);
	for (let n = 0; n < 5; n++) {
		await remove((await add('victim@mail.test')).id);
	}
	const {id} = await add('Victim@MAIL.test');
	await tryTest(id);
	t.deepEqual(await takeConfirmations(), [], 'its alert was removed before it went out');
	tools.advance(24 * hour);
	await tryTest(id);
	t.deepEqual(await takeConfirmations(), ['confirm'], 'once a day, by a test');

	for (let n = 0; n < 15; n++) {
		await add(`u${n}@mail.test`);
	}
	t.is((await takeConfirmations()).length, 9, 'ten a day of a workspace');
	for (let n = 0; n < 4; n++) {
		await add('victim@mail.test', (await insertWorkspace(store, `w${n}`)).workspaceId);
	}
	t.is((await takeConfirmations()).length, 2, 'three a day to an address');
	await store
		.database('workspaces')
		.where({id: acme})
		.update({paused_at: storeTime(tools.clock.now())});
	const row = await add('late@mail.test');
	t.is(await findMailRefusal(store.reader, row, true), 'the workspace is paused');
});

storeTest(test, 'allows and records five test alerts per workspace and hour across all nodes', async (t, store) => {
	const {tools, acme, add, tryTest} = await start(t, store);
	const [one, other] = [(await add('a@shop.example')).id, (await add('b@shop.example')).id];
	t.is(await tryTest(one), 'sent');
	tools.advance(10 * 60_000);
	const results = await Promise.all(
		Array.from({length: 40}, (_, n) =>
			tryTest(n % 2 === 0 ? one : other, n % 4 < 2 ? store.writer : store.agreeing),
		),
	);
	t.is(results.filter(result => result === 'sent').length, 4);
	t.deepEqual([...new Set(results)].toSorted(), [50 * 60_000, 'sent'].toSorted());
	tools.advance(50 * 60_000);
	t.is(await tryTest(one), 'sent', 'the first one is an hour ago');
	t.is(await tryTest(one), 10 * 60_000);
	const acts = await listAudit(store.reader, {workspaceId: acme, limit: 100});
	t.is(acts.filter(({action}) => action === 'alert.tested').length, 6);
});

storeTest(test, 'treats the alert addresses from before the upgrade as confirmed', async (t, store) => {
	const {acme, add, write} = await start(t, store);
	const {database} = store;
	await add('Ops@Bücher.example');
	await add('Ops@Bücher.example');
	await add('ops@mail.test', null);
	await database.schema.dropTable('alert_addresses');
	await database.schema.dropTable('alert_allowances');
	await database.raw('alter table users drop column vouched_at');
	const at = storeTime(Date.now());
	await database('users').insert({
		id: 'usr_1',
		email: 'ann@mail.test',
		role: 'admin',
		workspace_id: acme,
		created_at: at,
	});
	await database('migrations').where({name: '042_alert_addresses'}).delete();
	await migrate(database);
	t.deepEqual(await database('alert_addresses').pluck('address_key'), ['ops@xn--bcher-kva.example']);
	t.is((await add('ops@bücher.example')).status, 'active');
	t.is((await add('ann@mail.test')).status, 'active');
	await write(async trx => void (await trx('users').delete()));
	t.is((await add('ann@mail.test')).status, 'unconfirmed', 'as before, only of those who are users');
});
