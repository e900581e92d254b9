import test from 'ava';
import {createClockWatch} from '../../src/daemon/clock-steps.ts';

test('a step back is seen once, a step forward and small drift are none', t => {
	let [wall, monotonic] = [1_000_000_000, 0];
	const watch = createClockWatch({now: () => wall, monotonic: () => monotonic});
	const pass = (ms: number, step = 0) => {
		monotonic += ms;
		wall += ms + step;
		return watch();
	};
	t.is(pass(1000), 0);
	t.is(pass(1000, -500), 0);
	t.is(pass(1000, -3_600_000), 3_600_000);
	t.is(pass(1000), 0);
	t.is(pass(1000, 7_200_000), 0);
});
