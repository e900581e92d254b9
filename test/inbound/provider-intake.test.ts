import {createHmac} from 'node:crypto';
import test from 'ava';
import {acceptInbound} from '../../src/inbound/accept-inbound.ts';
import {ProviderIntake} from '../../src/inbound/provider-intake.ts';
import {ReadingLoop, readMarkWrite} from '../../src/inbound/reading.ts';
import {storeTime} from '../../src/kit/time.ts';
import {precedence} from '../../src/mail/report.ts';
import {countUnread, countUnreadEvents} from '../../src/resources/received/inbound-store.ts';
import {trimKept, trimWorkspace} from '../../src/resources/received/kept-store.ts';
import type {Smarthost} from '../../src/resources/smarthosts/store.ts';
import type {Store} from '../../src/store/store.ts';

import {storeTest} from '../helpers/databases.ts';
import {proven} from '../helpers/provider-posts.ts';
import {testVault} from '../helpers/tools.ts';
import {waitFor} from '../helpers/wait.ts';
import {addWorkspace, newId} from '../helpers/workspace.ts';

const secret = 'signing-key';
const reading = {kind: 'provider', reports: [], clues: {} as never, fault: null} as const;

async function intakeOf(store: Store, provider: Smarthost['provider'], workspaceId: string) {
	const id = newId('smh');
	const smarthost: Smarthost = {
		...{id, provider, workspace_id: workspaceId, token_hash: id, secret: testVault.seal(id, secret), topic: null},
		...{takes: [], last_event_at: null, created_at: storeTime(Date.now()), used_at: null, unreported_since: null},
	};
	const clock = {now: () => Date.now(), monotonic: () => performance.now()};
	let together = 0;
	let most = 0;
	let gate = Promise.resolve();
	const options = {
		...{reader: store.reader, writer: store.writer, vault: testVault, clock, wake: () => undefined},
		client: {send: () => Promise.reject(new Error('nothing is asked'))},
		async acceptMessage(coming: Parameters<typeof acceptInbound>[1]) {
			together++;
			most = Math.max(most, together);
			await gate;
			const taken = await acceptInbound({writer: store.writer, node: 'req_a', clock}, coming);
			together--;
			return taken;
		},
	};
	const start = () => new ProviderIntake(options);
	/** Blocks all writes until the returned function is called. */
	const hold = () => {
		let release = (): void => undefined;
		gate = new Promise(resolve => {
			release = resolve;
		});
		return () => release();
	};
	return {smarthost, start, hold, running: () => together, most: () => most};
}

function mailgunPost(recipient: string, token: string, timestamp = String(Math.floor(Date.now() / 1000))) {
	const signature = createHmac('sha256', secret)
		.update(timestamp + token)
		.digest('hex');
	const event = {event: 'complained', recipient};
	return {
		headers: {},
		body: Buffer.from(JSON.stringify({signature: {timestamp, token, signature}, 'event-data': event})),
	};
}

storeTest(test, 'Mailgun: accepts a token for one event only, even after a restart', async (t, store) => {
	const {id} = await addWorkspace(store, 'shop');
	const {smarthost, start} = await intakeOf(store, 'mailgun', id);
	const intake = start();
	t.is(await intake.take(smarthost, mailgunPost('a@x.test', 'one')), 'taken');
	t.is(await intake.take(smarthost, mailgunPost('b@x.test', 'one')), 'forged');
	t.is(await intake.take(smarthost, mailgunPost('a@x.test', 'one')), 'taken', 'posted again, it is stored once');
	t.is(await start().take(smarthost, mailgunPost('b@x.test', 'one')), 'forged');
	const both = [
		intake.take(smarthost, mailgunPost('c@x.test', 'two')),
		intake.take(smarthost, mailgunPost('d@x.test', 'two')),
	];
	t.deepEqual((await Promise.all(both)).toSorted(), ['forged', 'taken']);
	t.is(await intake.take(smarthost, mailgunPost('a@x.test', 'three')), 'taken');
	const {smarthost: other} = await intakeOf(store, 'mailgun', id);
	t.is(await intake.take(other, mailgunPost('e@x.test', 'one')), 'taken', 'a smarthost has tokens of its own');
	t.is(await countUnread(store.reader), 4);
});

storeTest(test, 'Mailgun: accepts only one event per post, so that a token covers no more', async (t, store) => {
	const {smarthost, start} = await intakeOf(store, 'mailgun', (await addWorkspace(store, 'shop')).id);
	const {body} = mailgunPost('a@x.test', 'one');
	const post = JSON.parse(body.toString());
	const many = Buffer.from(JSON.stringify({...post, 'event-data': [post['event-data'], {event: 'opened'}]}));
	t.is(await start().take(smarthost, {headers: {}, body: many}), 'unreadable');
	t.is(await countUnread(store.reader), 0);
});

/** A post of the generic provider, which batches events. */
const genericPost = (n: number, from = 0) => {
	const events = Array.from({length: n}, (_, at) => ({type: 'complained', recipient: `r${from + at}@x.test`}));
	const {body, headers} = proven('generic', JSON.stringify(events), secret, {});
	return {headers, body: Buffer.from(body)};
};

storeTest(test, 'stores a post of thousands of events in batches, and refuses more than can wait', async (t, store) => {
	const {id} = await addWorkspace(store, 'shop');
	const {smarthost, start, hold, running, most} = await intakeOf(store, 'generic', id);
	const intake = start();
	t.is(await intake.take(smarthost, genericPost(500)), 'taken');
	t.true(most() <= 64, `${most()} at once`);
	t.is(await intake.take(smarthost, genericPost(10_001)), 'unreadable');
	const row = {...{digest: 'x', source: 'provider', node: 'req_b', rcpt_to: '[]', raw: Buffer.alloc(1), size: 1}};
	for (let from = 0; from < 19_000; from += 500) {
		const rows = Array.from({length: 500}, (_, n) => ({
			...row,
			id: `w${from + n}`,
			workspace_id: id,
			received_at: '2026',
		}));
		await store.database('inbound').insert(rows);
	}
	const last = start();
	t.is(await last.take(smarthost, genericPost(100, 500)), 'taken');
	const release = hold();
	const first = last.take(smarthost, genericPost(200, 600));
	await waitFor('the first post is being stored', () => running() > 0);
	const second = last.take(smarthost, genericPost(200, 800));
	release();
	t.deepEqual(await Promise.all([first, second]), ['taken', 'taken'], 'an event that is being stored counts once');
	t.is(await start().take(smarthost, genericPost(1, 1000)), 'limited');
	t.is(await countUnreadEvents(store.reader, id, 30_000), 20_000);
	const {smarthost: other} = await intakeOf(store, 'generic', (await addWorkspace(store, 'other')).id);
	t.is(await start().take(other, genericPost(1)), 'taken', 'others are not concerned');
});

storeTest(test, 'reads events of the workspaces in turn, and mail at the same time', async (t, store) => {
	const row = {
		digest: 'x',
		source: 'provider',
		node: 'req_a',
		rcpt_to: '[]',
		raw: Buffer.from('e'),
		size: 1,
		precedence: 0,
	};
	const rowsOf = (name: string, n: number, second: number, more: object) =>
		Array.from({length: n}, (_, at) => ({
			...{...row, id: `${name} ${at}`, received_at: `2026-11-01T10:00:${10 + second}.${100 + at}Z`},
			...more,
		}));
	await store
		.database('inbound')
		.insert([
			...rowsOf('evil', 200, 0, {workspace_id: 'wrk_b', turn: 'wrk_b'}),
			...rowsOf('shop', 10, 1, {workspace_id: 'wrk_a', turn: 'wrk_a'}),
			...rowsOf('last', 10, 1, {workspace_id: 'wrk_c', turn: 'wrk_c'}),
			...rowsOf('mail', 10, 2, {source: 'smtp', turn: 'bounce'}),
		]);
	const read: string[] = [];
	const loop = new ReadingLoop({
		...{store, node: 'req_a', isAlone: false, clock: {now: () => Date.now()}},
		lane: {precedence: precedence.proven, perTurn: 32, maxRows: 128},
		read: async () => reading,
		async record({id}) {
			read.push(id);
			const end = {kept: null, isDiscarded: false, reading: null, fault: null};
			await store.writer.submit(readMarkWrite, {id, at: storeTime(Date.now()), ...end});
		},
		observer: {
			inboundUnreadable: (_, error) => t.fail(String(error)),
			inboundUnrecorded: (_, error) => t.fail(String(error)),
			storeFailed: error => t.fail(String(error)),
		},
	});
	t.teardown(() => loop.stop());
	loop.wake();
	await loop.idle();
	t.is(read.length, 230);
	const placeOf = (id: string) => read.indexOf(id);
	for (const id of ['mail 9', 'shop 9', 'last 9']) {
		t.true(placeOf(id) < 100, `${id} was read at ${placeOf(id)}`);
	}
	t.is(Number((await store.reader('inbound').whereNotNull('workspace_id').count('* as n'))[0]?.n), 0);
});

storeTest(test, 'limits what is retained for one workspace without removing data of others', async (t, store) => {
	const rows = (name: string, n: number, more: object) =>
		Array.from({length: n}, (_, at) => ({
			...{id: `${name} ${at}`, digest: 'x', source: 'provider', rcpt_to: '[]', raw: Buffer.alloc(1), size: 1},
			...{received_at: `2026-11-01 ${100 + at}`, read_at: '2026', kept: 'unmatched', ...more},
		}));
	await store
		.database('inbound')
		.insert([
			...rows('mail', 40, {}),
			...rows('evil', 60, {workspace_id: 'wrk_b'}),
			...rows('shop', 5, {workspace_id: 'wrk_a'}),
			...rows('more', 30, {workspace_id: 'wrk_c'}),
		]);
	const left = async (name: string) =>
		Number((await store.reader('inbound').where('id', 'like', `${name} %`).count('* as n'))[0]?.n);
	const caps = {messages: 100, bytes: 10_000};
	t.is(await store.writer.transaction(trx => trimWorkspace(trx, 'wrk_b', caps, 1000)), 50);
	t.deepEqual(await Promise.all(['mail', 'evil', 'shop', 'more'].map(left)), [40, 10, 5, 30]);
	t.is(await store.writer.transaction(trx => trimKept(trx, caps, 1000)), 20);
	t.deepEqual(await Promise.all(['mail', 'evil', 'shop', 'more'].map(left)), [40, 10, 5, 10]);
});
