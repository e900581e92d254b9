import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {readPaceFigures} from '../../../src/store/queue/sites.ts';
import {storeTest} from '../../helpers/databases.ts';

storeTest(
	test,
	'counts suspensions, wait reasons of queues and today’s messages from new sources',
	async (t, store) => {
		const now = storeTime(Date.UTC(2026, 5, 9, 12));
		t.deepEqual(await readPaceFigures(store.reader, now), {
			suspended: {operator: 0, failures: 0, route: 0},
			queues: [],
			warmUp: [],
		});
		await store.database('suspensions').insert({destination: 'a.test', reason: 'x', created_at: now});
		const site = {step: 1, window: 1, updated_at: now, reason: 'x'};
		await store.database('sites').insert([
			{...site, site: 'one', suspended_until: storeTime(Date.parse(now) + 1)},
			{...site, site: 'two', suspended_until: now},
			{...site, site: 'four', suspended_until: storeTime(Date.parse(now) + 1), waits_for: 'route'},
			{...site, site: 'three'},
		]);
		const queue = {
			workspace_id: 'ws_1',
			node: 'req_1',
			site: 'one',
			detail: '',
			updated_at: now,
			waits_for: 'pace',
		};
		await store.database('lane_waits').insert([
			{...queue, destination: 'a.test'},
			{...queue, destination: 'b.test'},
			{
				...queue,
				destination: 'b.test',
				node: 'req_2',
				waits_for: 'turn',
				updated_at: storeTime(Date.parse(now) - 1),
			},
		]);
		const day = {source: '192.0.2.1', provider: 'google', n: 3};
		await store.database('warmup_days').insert([
			{...day, day: '2026-06-09'},
			{...day, day: '2026-06-08'},
		]);
		t.deepEqual(await readPaceFigures(store.reader, now), {
			suspended: {operator: 1, failures: 1, route: 1},
			queues: [{waitsFor: 'pace', n: 2}],
			warmUp: [day],
		});
	},
);
