import test from 'ava';
import {startSweep} from '../../src/daemon/sweep.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {waitFor} from '../helpers/wait.ts';

/** A task with the given number of steps in each sweep. */
type SweepTask = Parameters<typeof startSweep>[0]['tasks'][number];

function countingTask(name: string, steps: number): {task: SweepTask; done: number[]} {
	const done: number[] = [];
	const task: SweepTask = {
		name,
		begin() {
			const sweep = done.push(0) - 1;
			return async () => {
				done[sweep] = (done[sweep] ?? 0) + 1;
				return (done[sweep] ?? 0) < steps;
			};
		},
	};
	return {task, done};
}

/** Waits until all one-millisecond timers set before have fired. */
const laterTimers = () => new Promise(resolve => setTimeout(resolve, 5));

test('every task runs to the end in each sweep and starts again in the next', async t => {
	const [one, two] = [countingTask('one', 3), countingTask('two', 1)];
	const sweep = startSweep({
		tasks: [one.task, two.task],
		intervalMs: () => 1,
		clock: systemClock,
		failed: error => t.fail(String(error)),
	});
	await waitFor('three sweeps', () => two.done.length >= 3);
	await sweep.stop();
	t.true(one.done.slice(0, -1).every(steps => steps === 3));
	t.true(two.done.every(steps => steps === 1));
	const {length} = two.done;
	await laterTimers();
	t.is(two.done.length, length, 'nothing begins after the stop');
});

test('a failed task delays neither the others nor the next sweep', async t => {
	const other = countingTask('other', 1);
	const faults: string[] = [];
	const sweep = startSweep({
		tasks: [
			{
				name: 'broken',
				begin: () => async () => {
					throw new Error('disk full');
				},
			},
			other.task,
		],
		intervalMs: () => 1,
		clock: systemClock,
		failed: (error, task) => faults.push(`${task}: ${(error as Error).message}`),
	});
	await waitFor('two sweeps', () => other.done.length >= 2);
	await sweep.stop();
	t.deepEqual([...new Set(faults)], ['broken: disk full']);
	t.true(faults.length >= 2);
});

test('a stop waits for the running step and skips the rest', async t => {
	let begun = 0;
	let end = () => {};
	const sweep = startSweep({
		tasks: [
			{
				name: 'slow',
				begin: () => async () => {
					begun++;
					await new Promise<void>(resolve => {
						end = resolve;
					});
					return true;
				},
			},
		],
		intervalMs: () => 1,
		clock: systemClock,
		failed: error => t.fail(String(error)),
	});
	await waitFor('a step', () => begun === 1);
	let stopped = false;
	const stopping = sweep.stop().then(() => {
		stopped = true;
	});
	await new Promise(resolve => setImmediate(resolve));
	t.false(stopped);
	end();
	await stopping;
	t.is(begun, 1);
});

test('applies a shorter interval at once', async t => {
	const {task, done} = countingTask('one', 1);
	let interval = 2 ** 40; // Longer than any timer of Node.
	const sweep = startSweep({tasks: [task], intervalMs: () => interval, clock: systemClock, failed: () => t.fail()});
	await laterTimers();
	t.is(done.length, 0);
	interval = 1;
	sweep.reschedule();
	await waitFor('a sweep', () => done.length > 0);
	await sweep.stop();
});
