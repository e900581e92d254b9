import test from 'ava';
import {ClockWatch, watchChanges} from '../../src/daemon/upkeep.ts';
import {waitFor} from '../helpers/wait.ts';

test('notices a change made while the daemon starts', async t => {
	let changes = 0;
	const watch = watchChanges({
		since: 7,
		read: async () => 8,
		changed: () => void changes++,
		failed: error => t.fail(String(error)),
	});
	t.teardown(() => watch.stop());
	await waitFor('the change', () => changes === 1);
	t.is(changes, 1);
});

test('detects a clock step back once, but no step forward and no small drift', t => {
	let [wall, monotonic] = [1_000_000_000, 0];
	const watch = new ClockWatch({now: () => wall, monotonic: () => monotonic});
	const pass = (ms: number, step = 0) => {
		monotonic += ms;
		wall += ms + step;
		return watch.step();
	};
	t.is(pass(1000), 0);
	t.is(pass(1000, -500), 0);
	t.is(pass(1000, -3_600_000), 3_600_000);
	t.is(pass(1000), 0);
	t.is(pass(1000, 7_200_000), 0);
});
