import test from 'ava';
import {limitWork, processCpu} from '../../src/kit/work-limit.ts';

for (const [wall, cpu, state] of [
	[99, 1000, 'within'],
	[100, 99, 'within'],
	[100, 100, 'spent'],
	[1499, 99, 'within'],
	[1500, 99, 'starved'],
	[5000, 100, 'spent'],
] as const) {
	test(`${wall} ms of wall time and ${cpu} ms of CPU time with a limit of 100 ms: ${state}`, t => {
		const [clock, used] = [{now: 7}, {now: 9}];
		const stateNow = limitWork(100, {clock: {monotonic: () => clock.now}, cpu: () => used.now});
		clock.now += wall;
		used.now += cpu;
		t.is(stateNow(), state);
	});
}

test('the CPU clock advances while the process works', t => {
	const began = processCpu();
	while (processCpu() === began) {
		Math.sqrt(began);
	}
	t.true(processCpu() > began);
});
