import {once} from 'node:events';
import {Worker} from 'node:worker_threads';
import test from 'ava';
import {createPauses, createSharedClock, inTurn, repeated, systemClock} from '../../src/kit/clock.ts';

const hour = 3_600_000;
// A busy machine may pause between two readings.
const tolerated = 30_000;

test('a shared clock shows the system time until it is set', t => {
	const clock = createSharedClock();
	t.true(Math.abs(clock.now() - systemClock.now()) < tolerated);
	t.true(Number.isInteger(clock.now()));
});

test('a clock that was set continues from there, in whole milliseconds', t => {
	const clock = createSharedClock();
	for (const time of [systemClock.now() + hour, systemClock.now() - hour, 1234.6]) {
		clock.set(time);
		const now = clock.now();
		t.true(Number.isInteger(now));
		t.true(now >= Math.floor(time) && now < time + tolerated, String(now - time));
	}
});

test('other threads show the same time, even after the clock is set again', async t => {
	const clock = createSharedClock();
	const source = `
		const {parentPort, workerData} = require('node:worker_threads');
		import(workerData.module).then(({createSharedClock}) => {
			const clock = createSharedClock(workerData.memory);
			parentPort.on('message', () => parentPort.postMessage(clock.now()));
			parentPort.postMessage('ready');
		});`;
	const module = new URL('../../src/kit/clock.js', import.meta.url).href;
	const worker = new Worker(source, {eval: true, workerData: {module, memory: clock.memory}});
	t.teardown(() => worker.terminate());
	await once(worker, 'message');
	for (const skew of [hour, -hour]) {
		clock.set(systemClock.now() + skew);
		const before = clock.now();
		worker.postMessage('now');
		const [there] = (await once(worker, 'message')) as [number];
		t.true(there >= before && there <= clock.now(), `${there - before}`);
	}
});

test('requests during a run cause one more run, but none after the stop', async t => {
	const ends: Array<() => void> = [];
	const begun = (count: number) => t.is(ends.length, count);
	const turn = () => new Promise(setImmediate);
	const rounds = repeated(
		hour,
		() => new Promise<void>(resolve => ends.push(resolve)),
		error => t.fail(String(error)),
	);
	const first = rounds.now();
	const others = [rounds.now(), rounds.again(), rounds.again()];
	await turn();
	begun(1);
	ends[0]?.();
	await first;
	await turn();
	begun(2);
	const last = rounds.again();
	const stopped = rounds.stop();
	ends[1]?.();
	await Promise.all([...others, last, stopped]);
	begun(2);
	await rounds.again();
	begun(2);
});

test('work in turn starts once the previous work has finished or failed', async t => {
	const turn = inTurn();
	const log: string[] = [];
	const work = (name: string) => async () => {
		log.push(`${name} begins`);
		await new Promise(setImmediate);
		log.push(`${name} ends`);
		return name === 'b' ? Promise.reject(new Error('b')) : name;
	};
	const results = await Promise.allSettled(['a', 'b', 'c'].map(name => turn(work(name))));
	t.deepEqual(
		results.map(({status}) => status),
		['fulfilled', 'rejected', 'fulfilled'],
	);
	t.deepEqual(
		log,
		['a', 'b', 'c'].flatMap(name => [`${name} begins`, `${name} ends`]),
	);
});

test('long work pauses after its time slice and lets waiting work run', async t => {
	let time = 0;
	let isLetIn = false;
	const pause = createPauses({monotonic: () => time}, 10);
	setImmediate(() => {
		isLetIn = true;
	});
	time = 9;
	await pause();
	t.false(isLetIn);
	time = 10;
	await pause();
	t.true(isLetIn);
});
