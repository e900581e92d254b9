import test from 'ava';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {newId} from '../../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';

sqliteTest(test, 'takes the priority from the send, then from its topic, then from its template', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId, templateId} = api.workspace;
	const levelOf = async (fields: object) => {
		const answer = await api.send(fields);
		t.is(answer.status, 202, answer.text);
		const [recipient] = await store
			.reader('recipients')
			.where({message_id: idOf(answer)})
			.pluck('id');
		const {priority} = await store.reader('queue').where({recipient_id: recipient}).first('priority');
		return priority;
	};
	t.is(await levelOf({}), 0);
	await store.database('templates').where({public_id: templateId}).update({priority: 'low'});
	for (const [code, priority] of [
		['codes', 'high'],
		['plain', null],
	]) {
		await store
			.database('topics')
			.insert({id: newId('usg'), workspace_id: workspaceId, code, name: code, created_at: at, priority});
	}
	api.clear();
	t.is(await levelOf({}), -1);
	t.is(await levelOf({unsubscribeGroup: 'plain'}), -1);
	t.is(await levelOf({unsubscribeGroup: 'codes'}), 1);
	t.is(await levelOf({unsubscribeGroup: 'codes', priority: 'low'}), -1);
	t.is(await levelOf({unsubscribeGroup: 'codes', priority: 'normal'}), 0);
	t.is(await levelOf({priority: 'high', cc: ['copy@example.org']}), 1);
});

sqliteTest(test, 'shows a priority only if the send set one, and keeps it in a resend', async (t, store) => {
	const api = await startApi(t, store);
	const read = async (id: string) => (await api.get(`/v1/messages/${id}`)).body as Record<string, unknown>;
	t.false('priority' in (await read(idOf(await api.send({priority: null})))));
	const id = idOf(await api.send({priority: 'high'}));
	t.is((await read(id)).priority, 'high');
	const again = await api.post(`/v1/messages/${id}/resend`, undefined);
	t.is((await read(idOf(again))).priority, 'high');
	const item = {from: api.workspace.sender, to: 'user@example.org', templateId: api.workspace.templateId};
	const batch = await api.post('/v1/messages/batch', {
		messages: [
			{...item, priority: 'low'},
			{...item, priority: 'urgent'},
		],
	});
	const {data} = batch.body as {data: Array<{id?: string; status: string}>};
	t.is((await read(data[0]?.id ?? '')).priority, 'low');
	t.is(data[1]?.status, 'error');
	for (const priority of ['urgent', 'High', 1, '']) {
		t.is(codeOf(await api.send({priority})), 'validation_failed', String(priority));
	}
});
