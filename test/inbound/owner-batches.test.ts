import test from 'ava';
import {OwnerBatches} from '../../src/inbound/owner-batches.ts';

/** Work that records its start and ends on request. */
function workbench(size: number) {
	const batches = new OwnerBatches(size);
	const running: Array<{readonly name: string; readonly end: () => void}> = [];
	const add = (owner: string, name: string) =>
		batches.run(owner, () => new Promise<string>(resolve => running.push({name, end: () => resolve(name)})));
	const turn = () => new Promise(resolve => setImmediate(resolve));
	/** Ends the running work and returns its names. */
	async function next(): Promise<string[]> {
		await turn();
		const now = running.splice(0);
		for (const {end} of now) {
			end();
		}
		return now.map(({name}) => name);
	}
	return {batches, add, next};
}

test('runs one batch at a time per owner, in order, without delaying other owners', async t => {
	const {batches, add, next} = workbench(2);
	const done = ['a1', 'a2', 'a3', 'a4', 'a5'].map(name => add('a', name));
	const other = add('b', 'b1');
	t.deepEqual(await next(), ['a1', 'a2', 'b1']);
	t.is(await other, 'b1');
	const late = add('b', 'b2');
	t.deepEqual(await next(), ['a3', 'a4', 'b2']);
	t.is(batches.waiting('a'), 1);
	t.deepEqual(await next(), ['a5']);
	t.deepEqual(await Promise.all([...done, late]), ['a1', 'a2', 'a3', 'a4', 'a5', 'b2']);
	t.deepEqual([batches.waiting('a'), batches.waiting('b')], [0, 0]);
});

test('does not fail later work of an owner after an error', async t => {
	const batches = new OwnerBatches(1);
	const failed = batches.run('a', () => Promise.reject(new Error('no store')));
	const next = batches.run('a', async () => 'stored');
	await t.throwsAsync(failed, {message: 'no store'});
	t.is(await next, 'stored');
});
