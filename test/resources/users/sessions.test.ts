import test from 'ava';
import {userTask} from '../../../src/daemon/sweep.ts';
import type {Role} from '../../../src/mail/operator.ts';
import {performIn} from '../../../src/resources/operation.ts';
import {setPassword} from '../../../src/resources/users/log-in.ts';
import {changeUser, emailKey, linkUser, removeUser, toOperator, useLink} from '../../../src/resources/users/rules.ts';
import {Sessions} from '../../../src/resources/users/sessions.ts';
import {findUserByEmail, listUsers} from '../../../src/resources/users/store.ts';
import {deleteWorkspace} from '../../../src/resources/workspaces/delete-workspace.ts';
import {findWorkspace} from '../../../src/resources/workspaces/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {insertWorkspace} from '../../helpers/messages.ts';
import {everywhere, testTools} from '../../helpers/tools.ts';
import {newUser} from '../../helpers/users.ts';

const client = {address: '192.0.2.1', agent: 'Firefox'};
const [minute, hour, day] = [60_000, 3_600_000, 86_400_000];

function labOf(store: Store) {
	const tools = testTools();
	const {clock, newId, random} = tools;
	return {
		tools,
		sessions: new Sessions({store, clock, newId, random}),
		write: store.writer.transaction,
		context: everywhere(tools),
		add: (email: string, role: Role = 'viewer', workspaceId: string | null = null) =>
			newUser(store, tools, {email, role, workspaceId}),
	};
}

sqliteTest(test, 'a link signs in once within an hour, and a new one replaces it', async (t, store) => {
	const {tools, context, write, add} = labOf(store);
	const {user, token} = await add('ann@x.example');
	await t.throwsAsync(add(user.email, 'admin'), {message: /already/});
	t.is(await write(trx => useLink(trx, tools, `${token}x`)), undefined);
	t.is((await write(trx => useLink(trx, tools, token)))?.id, user.id);
	t.is(await write(trx => useLink(trx, tools, token)), undefined);

	const first = await write(trx => performIn(linkUser, {...context, trx}, {id: user.id}));
	const second = await write(trx => performIn(linkUser, {...context, trx}, {id: user.id}));
	t.is(await write(trx => useLink(trx, tools, first.token)), undefined);
	tools.advance(hour);
	t.is(await write(trx => useLink(trx, tools, second.token)), undefined);
	t.notRegex(JSON.stringify(await store.reader('users')), new RegExp(second.token));
});

storeTest(test, 'a session identifies its user and expires after 12 hours idle or 7 days', async (t, store) => {
	const {tools, sessions, add} = labOf(store);
	const {user} = await add('ann@x.example', 'operator');
	const token = await sessions.start(user, {...client, by: 'link'});
	const found = await sessions.find(token);
	t.like(found, {
		user: {id: user.id, email: user.email, role: 'operator', workspaceId: null},
		workspaceId: null,
		confirmedAt: '2026-06-09T10:00:00.000Z',
	});
	t.is(await sessions.find(`${token}x`), null);
	t.notRegex(JSON.stringify(await store.reader('user_sessions')), new RegExp(token));
	t.is((await findUserByEmail(store.reader, user.email))?.last_login_at, '2026-06-09T10:00:00.000Z');

	const seen = async () => (await store.reader('user_sessions').first()).seen_at;
	tools.advance(minute - 1);
	await sessions.find(token);
	t.is(await seen(), '2026-06-09T10:00:00.000Z', 'it is noted once a minute');
	tools.advance(1);
	await sessions.find(token);
	t.is(await seen(), '2026-06-09T10:01:00.000Z');
	await sessions.confirm(found?.sessionId ?? '');
	t.is((await sessions.find(token))?.confirmedAt, '2026-06-09T10:01:00.000Z');

	const idle = await sessions.start(user, {...client, by: 'password'});
	for (let hours = 0; hours < 7 * 24 - 11; hours += 11) {
		tools.advance(11 * hour);
		t.truthy(await sessions.find(token), `${hours}`);
	}
	t.is(await sessions.find(idle), null);
	t.is((await sessions.listOf(user.id)).length, 1);
	tools.advance(11 * hour);
	t.is(await sessions.find(token), null, 'seven days are over');
	t.deepEqual(await sessions.listOf(user.id), []);
});

test('a session still identifies its user while the store is read-only', async t => {
	const store = await newStore(t, 'sqlite');
	const {tools, sessions, write, add} = labOf(store);
	const token = await sessions.start((await add('ann@x.example')).user, {...client, by: 'link'});
	await write(async trx => await trx.raw('pragma query_only = on'));
	await t.throwsAsync(() => sessions.confirm('ses_x'), {message: /readonly/});
	tools.advance(hour);
	t.like(await sessions.find(token), {user: {email: 'ann@x.example'}});
});

sqliteTest(
	test,
	'ends sessions one by one, all but one, with a new password, and with their user',
	async (t, store) => {
		const {tools, context, sessions, write, add} = labOf(store);
		const [{user}, {user: bob}] = [await add('ann@x.example'), await add('bob@x.example')];
		const start = async () => await sessions.start(user, {...client, by: 'passkey'});
		const [own, other, bobs] = [await start(), await start(), await sessions.start(bob, {...client, by: 'oidc'})];
		const lives = async () =>
			await Promise.all([own, other, bobs].map(async one => (await sessions.find(one)) !== null));
		const idOf = async (token: string) => (await sessions.find(token))?.sessionId ?? '';
		const operator = toOperator(user, client.address);

		t.is(await sessions.end(user.id, {id: await idOf(bobs)}, operator), 0, 'a session of somebody else');
		t.is(await sessions.end(user.id, {id: await idOf(other)}, operator), 1);
		t.deepEqual(await lives(), [true, false, true]);
		await start();
		t.is(await sessions.end(user.id, {except: await idOf(own)}, operator), 1);
		t.deepEqual(await lives(), [true, false, true]);
		await start();
		await setPassword(store, tools, {user, password: 'correct horse battery', sessionId: await idOf(own)});
		t.is((await sessions.listOf(user.id)).length, 1);
		t.is(await sessions.end(user.id, {except: null}, operator), 1);
		t.deepEqual(await lives(), [false, false, true]);
		await write(trx => performIn(removeUser, {...context, trx}, {id: bob.id}));
		t.deepEqual(await lives(), [false, false, false]);

		const audit = await store.reader('audit').orderBy('id').select('action', 'actor', 'origin', 'detail');
		t.deepEqual(
			audit.filter(({action}) => action === 'user.logged_out').map(({detail}) => JSON.parse(detail).sessions),
			[1, 1, 1],
		);
		t.like(audit[2], {action: 'user.logged_in', actor: 'user:ann@x.example', origin: '192.0.2.1'});
		t.like(audit.at(-1), {action: 'user.removed', actor: 'cli:ann'});
	},
);

storeTest(test, 'a role change takes effect at once; a user of one workspace sees no other', async (t, store) => {
	const {context, sessions, write, add} = labOf(store);
	const [shop, other] = [await insertWorkspace(store, 'shop'), await insertWorkspace(store, 'other')];
	const {user} = await add('ann@x.example', 'admin', shop.workspaceId);
	const {user: bob} = await add('bob@x.example', 'admin');
	const [anns, bobs] = [
		await sessions.start(user, {...client, by: 'link'}),
		await sessions.start(bob, {...client, by: 'link'}),
	];
	const workspaceOf = async (token: string) => (await sessions.find(token))?.workspaceId;
	for (const token of [anns, bobs]) {
		await sessions.choose((await sessions.find(token))?.sessionId ?? '', other.workspaceId);
	}
	t.is(await workspaceOf(anns), shop.workspaceId);
	t.is(await workspaceOf(bobs), other.workspaceId);
	const access = {id: user.id, role: 'viewer', workspace: other.workspaceId} as const;
	await write(trx => performIn(changeUser, {...context, trx}, access));
	t.like(await sessions.find(anns), {user: {role: 'viewer'}, workspaceId: other.workspaceId});
	t.deepEqual(
		(await listUsers(store.reader)).map(({email, workspace, passkeys}) => [email, workspace, passkeys]),
		[
			['ann@x.example', 'other', 0],
			['bob@x.example', null, 0],
		],
	);
	t.deepEqual(
		(await listUsers(store.reader, other.workspaceId)).map(({email}) => email),
		['ann@x.example'],
	);
	t.deepEqual(await listUsers(store.reader, shop.workspaceId), []);
});

storeTest(test, 'deleting a workspace removes its users but not those of all workspaces', async (t, store) => {
	const {tools, sessions, add} = labOf(store);
	const {workspaceId} = await insertWorkspace(store, 'shop');
	const {user} = await add('ann@x.example', 'admin', workspaceId);
	const {user: bob} = await add('bob@x.example', 'admin');
	const [anns, bobs] = [
		await sessions.start(user, {...client, by: 'link'}),
		await sessions.start(bob, {...client, by: 'link'}),
	];
	await sessions.choose((await sessions.find(bobs))?.sessionId ?? '', workspaceId);
	const workspace = await findWorkspace(store.reader, workspaceId);
	if (!workspace) {
		t.fail();
		return;
	}
	await deleteWorkspace({store, tools}, workspace);
	t.is(await sessions.find(anns), null);
	t.like(await sessions.find(bobs), {user: {id: bob.id}, workspaceId: null});
	t.deepEqual(
		(await listUsers(store.reader)).map(({email}) => email),
		['bob@x.example'],
	);
});

storeTest(test, 'the sweep removes expired sessions and unused links', async (t, store) => {
	const {tools, sessions, add} = labOf(store);
	const {user} = await add('ann@x.example');
	for (let n = 0; n < 3; n++) {
		await sessions.start(user, {...client, by: 'link'});
	}
	tools.advance(12 * hour - 1);
	const {user: bob} = await add('bob@x.example');
	await sessions.start(bob, {...client, by: 'link'});
	tools.advance(1);
	const step = userTask({store, clock: tools.clock, rowsPerStep: 2}).begin();
	t.deepEqual([await step(), await step()], [true, false]);
	t.deepEqual(await store.reader('user_sessions').pluck('user_id'), [bob.id]);
	t.like(await findUserByEmail(store.reader, user.email), {link_hash: null, link_expires_at: null});
	t.truthy((await findUserByEmail(store.reader, bob.email))?.link_hash);
	tools.advance(7 * day);
	await userTask({store, clock: tools.clock}).begin()();
	t.deepEqual(await store.reader('user_sessions'), []);
});

test('compares addresses in their normalized form', t => {
	t.is(emailKey(' Ann@Shop.EXAMPLE '), 'ann@shop.example');
	t.is(emailKey('ann@bücher.example'), 'ann@xn--bcher-kva.example');
	t.is(emailKey('Admin@localhost'), 'admin@localhost');
	t.is(emailKey('x'.repeat(1000)).length, 254);
});
