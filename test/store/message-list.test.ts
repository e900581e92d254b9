import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {listMessages, readLines} from '../../src/store/message-scan.ts';
import {readRecipients, readStatus} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';

async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store);
	const foreign = await insertWorkspace(store, 'foreign');
	await insertMessages(store, foreign.workspaceId, ['a@x.test']);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'a@x.test', 'c@y.test']);
	await changeRecipients(store.database, all => all.where({message_id: ids[1]}), {
		state: 'bounced',
		next_attempt_at: null,
	});
	await changeRecipients(store.database, all => all.where({message_id: ids[2]}), {
		state: 'bounced',
		next_attempt_at: null,
	});
	return {workspaceId, ids};
}

storeTest(test, 'a listed message contains only its own workspace’s data', async (t, store) => {
	const {workspaceId, ids} = await prepare(store);
	const [row] = await listMessages(store.reader, {workspaceId}, 1, some => readLines(store.reader, some));
	t.like(row, {id: ids[3], mode: 'live', status: 'accepted', from: 'a@shop.example', to: 'c@y.test', subject: null});
	t.deepEqual(await readRecipients(store.reader, newId('ws'), ids[0] as string), []);
});

storeTest(test, 'returns recipients with their attempts, the To recipient first', async (t, store) => {
	const {workspaceId, ids} = await prepare(store);
	const id = ids[0] as string;
	const to = await store.reader('recipients').where({message_id: id}).first();
	const at = storeTime(Date.now());
	await store.database('recipients').insert({...to, id: newId('rcp'), role: 'cc', address: 'cc@x.test'});
	const attempt = {recipient_id: to.id, at, phase: 'rcpt', reply: 'no', ms: 3, code: 451, host: 'mx.test'};
	await store.database('attempts').insert([
		{...attempt, n: 2, position: 0},
		{...attempt, n: 1, position: 1},
		{...attempt, n: 1, position: 0, code: null, host: null},
	]);
	const recipients = await readRecipients(store.reader, workspaceId, id);
	t.deepEqual(
		recipients.map(({role, attempts}) => [role, attempts.map(({n, code}) => [n, code])]),
		[
			[
				'to',
				[
					[1, null],
					[1, 451],
					[2, 451],
				],
			],
			['cc', []],
		],
	);
});

storeTest(test, 'the status is that of the To recipient, and waiting while it is queued', async (t, store) => {
	const {ids} = await prepare(store);
	t.deepEqual(await readStatus(store.reader, ids[0] as string), {state: 'accepted', waiting: true});
	t.deepEqual(await readStatus(store.reader, ids[1] as string), {state: 'bounced', waiting: false});
	t.is(await readStatus(store.reader, newId('msg')), undefined);
});
