import test from 'ava';
import {createCommitWatch} from '../../src/daemon/store-faults.ts';
import {storeTest} from '../helpers/databases.ts';

test('logs slow commits once until one is fast again', t => {
	const events: unknown[] = [];
	const log = (fields: object) => void events.push((fields as {event: string}).event);
	const committed = createCommitWatch({warn: log, info: log} as Parameters<typeof createCommitWatch>[0]);
	for (const ms of [5, 1001, 4000, 2000, 900, 3, 1500]) {
		committed(ms);
	}
	t.deepEqual(events, ['store_slow', 'store_quick', 'store_slow']);
});

storeTest(test, 'the writer reports the duration of each commit, but not of rollbacks', async (t, store) => {
	const commits: number[] = [];
	store.writer.onCommit?.(ms => commits.push(ms));
	await store.writer.transaction(async trx => void (await trx('changes').update({generation: 7})));
	await t.throwsAsync(store.writer.transaction(() => Promise.reject(new Error('undone'))));
	t.is(commits.length, 1);
	t.true((commits[0] ?? -1) >= 0);
});
