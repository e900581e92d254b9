import test from 'ava';
import {findIds} from '../../src/resources/workspaces/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {plansDuring} from '../helpers/plans.ts';

storeTest(test, 'finds ids by prefix, of one workspace or of all, in the index', async (t, store, engine) => {
	const [one, two] = [await insertWorkspace(store), await insertWorkspace(store, 'two')];
	await insertMessages(store, one.workspaceId, ['a@x.test', 'b@x.test']);
	await insertMessages(store, two.workspaceId, ['c@x.test']);
	const all: string[] = await store.reader('messages').orderBy('id').pluck('id');
	const found = async (start: string, workspaceId?: string) =>
		(await findIds(store.reader, 'msg', {start, workspaceId, limit: 10})).map(({id}) => id);
	t.deepEqual(await found('msg_'), all);
	t.deepEqual(await found('msg_', two.workspaceId), [all[2]]);
	for (const id of all) {
		t.deepEqual(await found(id), [id]);
		t.deepEqual(
			await found(id.slice(0, -1)),
			all.filter(each => each.startsWith(id.slice(0, -1))),
		);
	}
	t.deepEqual(await found('msg_zzz'), []);
	t.deepEqual(await findIds(store.reader, 'msg', {start: all[2] ?? '', limit: 1}), [
		{id: all[2], workspace_id: two.workspaceId},
	]);
	const [plan] = await plansDuring(store, engine, async () => await found('msg_'));
	t.regex(plan ?? '', /SEARCH messages USING|Index/);
});
