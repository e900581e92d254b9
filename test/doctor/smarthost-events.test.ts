import test from 'ava';
import {createWorkspace} from '../../src/admin/workspaces.ts';
import {smarthostEventsCheck} from '../../src/doctor/outbound.ts';
import {storeTime} from '../../src/kit/time.ts';
import {insertSmarthost} from '../../src/store/smarthosts.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages} from '../helpers/messages.ts';
import {testTools} from '../helpers/tools.ts';

const day = 86_400_000;

storeTest(test, 'a smarthost without events, or silent while mail went out, is a warning', async (t, store) => {
	const tools = testTools();
	const look = async () =>
		(await smarthostEventsCheck(store.reader).look()).map(({status, detail}) => [status, detail]);
	t.deepEqual(await look(), [['warn', 'no provider posts its events here']]);

	const workspace = await store.writer.transaction(trx => createWorkspace(trx, tools, {name: 'shop'}));
	const add = (id: string, last: number | null) =>
		store.writer.transaction(trx =>
			insertSmarthost(trx, {
				...{id, workspace_id: null, provider: 'ses', token_hash: id, secret: null, topic: null, takes: []},
				last_event_at: last === null ? null : storeTime(last),
				created_at: storeTime(Date.now() - 3 * day),
			}),
		);
	await add('smh_1', null);
	t.deepEqual(await look(), [['ok', 'ses: no event came yet']], 'no mail went out');
	await insertMessages(store, workspace?.id ?? '', ['ann@x.example']);
	await add('smh_2', Date.now() - 2 * day);
	await add('smh_3', Date.now() - 3600_000);
	t.deepEqual(
		(await look()).map(([status]) => status),
		['ok', 'warn', 'warn'],
	);
});
