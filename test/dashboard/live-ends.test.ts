import {once} from 'node:events';
import {Socket} from 'node:net';
import type {Readable} from 'node:stream';
import test, {type ExecutionContext} from 'ava';
import {livePages} from '../../src/dashboard/live.ts';
import type {DashboardParts} from '../../src/dashboard/parts.ts';
import type {Route, Visit} from '../../src/dashboard/route.ts';
import {createFeed} from '../../src/outcome/feed.ts';
import {performIn} from '../../src/resources/operation.ts';
import {changeUser, removeUser} from '../../src/resources/users/rules.ts';
import {Sessions} from '../../src/resources/users/sessions.ts';
import {findWorkspace} from '../../src/resources/workspaces/store.ts';
import type {Store} from '../../src/store/store.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {insertWorkspace} from '../helpers/messages.ts';
import {everywhere, testTools} from '../helpers/tools.ts';
import {newUser} from '../helpers/users.ts';

/** `looks`: the news of messages, in place of the store's events. */
async function labOf(t: ExecutionContext, store: Store, looks?: () => AsyncIterable<boolean>) {
	const tools = testTools();
	const stored = createFeed(store.reader, 10);
	t.teardown(stored.close);
	const feed = looks === undefined ? stored : {...stored, news: async () => looks()};
	const sessions = new Sessions({store, ...tools});
	const [route] = livePages({feed, sessions, tools} as unknown as DashboardParts) as [Route];
	const {workspaceId} = await insertWorkspace(store, 'shop');
	return {
		tools,
		async logIn(name: string) {
			const {user} = await newUser(store, tools, {email: `${name}@x.example`, role: 'viewer', workspaceId});
			const token = await sessions.start(user, {address: '192.0.2.1', agent: 'Firefox', by: 'link'});
			return {user, token};
		},
		async follow(token: string, {method = 'GET', socket = new Socket()} = {}) {
			const visit: unknown = {
				signedIn: await sessions.find(token),
				workspace: await findWorkspace(store.reader, workspaceId),
				request: {method, protocol: 'http', cookies: {mailctl: token}, raw: {socket}},
			};
			return await route.answer(visit as Visit);
		},
	};
}

storeTest(test, 'ends the live stream of a user who is removed or moved to another workspace', async (t, store) => {
	const {tools, logIn, follow} = await labOf(t, store);
	const {workspaceId: other} = await insertWorkspace(store, 'other');
	const context = everywhere(tools);
	const {transaction} = store.writer;
	const moved = {role: 'viewer', workspace: other} as const;
	const changes = {
		moved: (id: string) => transaction(trx => performIn(changeUser, {...context, trx}, {...moved, id})),
		removed: (id: string) => transaction(trx => performIn(removeUser, {...context, trx}, {id})),
	};
	for (const [how, change] of Object.entries(changes)) {
		const {user, token} = await logIn(how);
		const {body} = (await follow(token)) as {body: Readable};
		const ended = once(body.resume(), 'end');
		await change(user.id);
		tools.advance(60_000);
		await ended;
		t.true(body.readableEnded, how);
	}
});

sqliteTest(test, 'a closed connection or a HEAD request takes no live stream slot', async (t, store) => {
	const {logIn, follow} = await labOf(t, store);
	const {token} = await logIn('ann');
	for (let n = 0; n < 20; n++) {
		t.like(await follow(token, {socket: new Socket().destroy()}), {kind: 'content', body: ''});
		t.like(await follow(token, {method: 'HEAD'}), {kind: 'content', body: ''});
	}
	for (let n = 0; n < 20; n++) {
		const {kind, body} = (await follow(token)) as {kind: string; body: Readable};
		t.is(kind, 'content');
		body.destroy();
	}
	t.like(await follow(token), {kind: 'content', status: 429, headers: {'retry-after': '30'}});
});

storeTest(
	test,
	'notifies a page less and less often during constant news, and soon again after a pause',
	async (t, store) => {
		const {tools, logIn, follow} = await labOf(t, store, looks);
		const {token} = await logIn('ann');
		const begin = tools.clock.monotonic();
		const toldAt: number[] = [];
		/** Looks every second: news for a minute, then none for a minute, then once. */
		async function* looks() {
			for (let second = 1; second <= 125; second++) {
				tools.advance(1000);
				yield second < 60 || second === 120;
			}
		}
		const {body} = (await follow(token)) as {body: Readable};
		for await (const chunk of body) {
			if (String(chunk).includes('event: mail')) {
				toldAt.push((tools.clock.monotonic() - begin) / 1000);
			}
		}
		const meanwhile = toldAt.filter(at => at < 100);
		const gaps = meanwhile.slice(1).map((at, index) => at - (meanwhile[index] as number));
		t.deepEqual(
			gaps,
			gaps.toSorted((a, b) => a - b),
		);
		t.deepEqual([gaps[0], gaps.at(-1)], [3, 12]);
		t.is(toldAt.length, meanwhile.length + 1);
		t.true((toldAt.at(-1) ?? 0) - 120 <= 5);
	},
);
