import {randomBytes} from 'node:crypto';
import test from 'ava';
import {fillStore} from '../../src/cli/bench/fill.ts';
import {readStoreSize} from '../../src/store/engine/dialect.ts';
import {scanMessages} from '../../src/store/message-scan.ts';
import {readEvents, readLastPosition} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {addWorkspace} from '../helpers/workspace.ts';

storeTest(test, 'fills a store with the data that real traffic leaves', async (t, store) => {
	const {id, sender, templateId, versionId} = await addWorkspace(store, 'shop');
	const workspaces = [{id, sender, templateId, versionId}];
	const now = Date.UTC(2026, 10, 22);
	const options = {workspaces, now, data: {number: '{n}', order: 'No. {n}'}, random: randomBytes};
	const count = async (table: string, where: object = {}) =>
		Number((await store.reader(table).where(where).count('* as n').first())?.n);

	await fillStore(store, {...options, messages: 300});
	t.is(await count('messages'), 300);
	t.is(await count('events'), 300);
	const [delivered = ''] = await store.reader('recipients').where({state: 'delivered'}).limit(1).pluck('message_id');
	const timeline = await readEvents(store.reader, delivered, {after: null, limit: 9});
	t.deepEqual(
		timeline.map(({type}) => type),
		['accepted', 'queued', 'sent', 'delivered'],
	);
	t.true(timeline.every(({occurredAt}, n) => n === 0 || occurredAt > (timeline[n - 1]?.occurredAt ?? '')));
	t.like(timeline[2]?.detail, {role: 'to', attempt: 1, host: undefined});
	const places = await store.reader('messages').union(store.reader('events').select('position')).select('position');
	t.is(places.length, 600, 'each has a position of its own');
	t.is(await readLastPosition(store.reader), Math.max(...places.map(({position}) => Number(position))));
	t.is(await count('attempts'), 300);
	t.is(await count('contacts'), 300);
	t.is((await count('recipients', {state: 'delivered'})) + (await count('suppressions')), 300);
	const sum = async (table: string, column: string, where: object = {}) =>
		Number((await store.reader(table).where(where).sum(`${column} as n`).first<{n: number}>())?.n);
	const bounced = await count('recipients', {state: 'bounced'});
	for (const table of ['usage_days', 'usage_hours']) {
		t.is(await sum(table, 'n', {status: 'accepted'}), 300);
		t.is(await sum(table, 'n', {status: 'bounced'}), bounced);
	}
	t.is(await sum('usage_months', 'accepted'), 300);
	t.is(await sum('reputation_hours', 'delivered'), 300 - bounced);
	t.is(await count('events', {type: 'bounced'}), bounced);
	const {ids} = await scanMessages(store.reader, {workspaceId: id, status: 'bounced'}, {after: null, limit: 300});
	t.is(ids.length, bounced);
	const numbers: string[] = await store.reader('messages').pluck('data');
	t.deepEqual(new Set(numbers), new Set(Array.from({length: 300}, (_, n) => `{"number":"${n}","order":"No. ${n}"}`)));
	t.true((await readStoreSize(store.reader)) > 300 * 1000);
});
