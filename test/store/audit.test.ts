import test from 'ava';
import {auditTask} from '../../src/daemon/sweep.ts';
import {storeTime} from '../../src/kit/time.ts';
import {idFloor} from '../../src/mail/ids.ts';
import {beginAct, findAudit, listAudit, recordAct} from '../../src/resources/audit/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {testTools} from '../helpers/tools.ts';

const day = 86_400_000;
const act = {action: 'key.created', workspaceId: null, target: 'key_1'};

storeTest(test, 'the audit entry of an action is rolled back with it', async (t, store) => {
	const failing = store.writer.transaction(async trx => {
		await recordAct(trx, testTools(), act);
		throw new Error('later');
	});
	await t.throwsAsync(failing, {message: 'later'});
	t.deepEqual(await listAudit(store.reader, {limit: 10}), []);
});

storeTest(test, 'an action of several transactions has one entry, which shows how far it came', async (t, store) => {
	const record = beginAct(testTools(), {...act, action: 'suppression.imported'});
	for (const added of [500, 1000]) {
		await store.writer.transaction(trx => record(trx, {added}));
	}
	await t.throwsAsync(
		store.writer.transaction(async trx => {
			await record(trx, {added: 1500});
			throw new Error('no');
		}),
	);
	t.like(await listAudit(store.reader, {limit: 10}), {length: 1, 0: {detail: {added: 1000}}});
});

storeTest(
	test,
	'entries are removed after the retention, but not within a year; 0 retains them forever',
	async (t, store, engine) => {
		const now = Date.UTC(2026, 5, 9);
		const rows = [1, 364, 366, 367, 399, 401].map(age => ({
			...{id: idFloor('aud', now - age * day), at: String(age), actor: 'daemon', action: 'key.created'},
		}));
		await store.database('audit').insert(rows);
		const sweep = async (days: number) => {
			const step = auditTask({store, clock: {now: () => now}, days: () => days, rowsPerStep: 2}).begin();
			let steps = 1;
			while (await step()) {
				steps++;
			}
			const left = await store.reader('audit').orderBy('id', 'desc').pluck('at');
			return `${steps}: ${left.join()}`;
		};
		t.is(await sweep(0), '1: 1,364,366,367,399,401');
		t.is(await sweep(400), '1: 1,364,366,367,399');
		const plans = await plansDuring(store, engine, async () => {
			t.is(await sweep(90), '2: 1,364');
		});
		for (const plan of plans.filter(one => one.startsWith('delete'))) {
			t.false(readsAll(plan), plan);
		}
	},
);

storeTest(test, 'finds the entry of an action by its time', async (t, store) => {
	const time = '2026-06-09T10:00:00.000Z';
	const held = {at: time, workspace_id: 'ws_1', actor: 'cli:ann', action: 'queue.held'};
	for (const [n, detail] of ['{"reason":"why"}', '{"reason":"other"}'].entries()) {
		const at = storeTime(Date.parse(time) + n * day);
		await store.database('audit').insert({...held, id: idFloor('aud', Date.parse(at)), at, detail});
	}
	const found = await findAudit(store.reader, {workspaceId: 'ws_1', action: 'queue.held', at: time});
	t.like(found, {actor: 'cli:ann', detail: {reason: 'why'}});
});
