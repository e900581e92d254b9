import test from 'ava';
import {workspaceTask} from '../../src/daemon/sweep.ts';
import {codeOf, idOf, startApi} from '../helpers/api.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';

const day = 86_400_000;

storeTest(
	test,
	'a workspace can retain messages, or their content, for less time than the installation',
	async (t, store) => {
		const api = await startApi(t, store);
		const {workspaceId: other} = await insertWorkspace(store, 'other');
		await insertMessages(store, other, ['a@other.example']);
		const attachments = [{filename: 'a.txt', contentType: 'text/plain', content: 'eA=='}];
		const ended = [1, 2, 3].map(async n =>
			idOf(await api.send({data: {n}, metadata: {order: String(n)}, attachments})),
		);
		const ids = await Promise.all(ended);
		const waiting = idOf(await api.send({data: {n: 4}}));
		const later = {state: 'queued', next_attempt_at: '2099-01-01T00:00:00.000Z', subject: 'Four'};
		await changeRecipients(store.database, all => all.whereNot({message_id: waiting}), {
			state: 'sent',
			next_attempt_at: null,
			subject: 'One',
		});
		await changeRecipients(store.database, all => all.where({message_id: waiting}), later);

		const removed: string[] = [];
		let now = Date.now() + 5 * day;
		const task = workspaceTask({
			...{store, clock: {now: () => now}, messagesPerStep: 2},
			removeCaptured: async recipientIds => void removed.push(...recipientIds),
		});
		const sweep = async () => {
			for (const step = task.begin(); await step(); ) {}
		};
		const keeping = async (fields: object) =>
			await store.database('workspaces').where({id: api.workspace.id}).update(fields);
		const data = async () =>
			Object.fromEntries(
				(await store.reader('messages').orderBy('id').select('id', 'data')).map(row => [row.id, row.data]),
			);

		await keeping({content_days: 6});
		await sweep();
		t.deepEqual(Object.values(await data()).filter(text => text !== null).length, 4, 'it is not time yet');
		await keeping({content_days: 4});
		await sweep();
		const left = await data();
		t.deepEqual(
			ids.map(id => left[id]),
			[null, null, null],
		);
		t.is(left[waiting], '{"n":4}', 'what waits keeps its content');
		t.is(removed.length, 3);
		t.is(Number((await store.reader('attachments').count('* as n').first())?.n), 0);
		const {body} = await api.get(`/v1/messages/${ids[0]}`);
		t.like(body, {data: {}, subject: null, metadata: {order: '1'}, attachments: [], to: 'user@example.org'});
		t.is(codeOf(await api.post(`/v1/messages/${ids[0]}/resend`, {})), 'content_removed');
		t.is(codeOf(await api.get(`/v1/messages/${ids[0]}/content`)), 'content_removed');
		t.is(codeOf(await api.get(`/v1/messages/${ids[0]}/raw`)), 'content_removed');

		await changeRecipients(store.database, all => all.where({message_id: waiting}), {
			state: 'sent',
			next_attempt_at: null,
		});
		await sweep();
		t.is((await data())[waiting], null);
		t.is(removed.length, 4, 'nothing is emptied twice');

		await keeping({retention_days: 5});
		now += day;
		await sweep();
		t.deepEqual(Object.keys(await data()).length, 1, 'those of others stay');
	},
);
