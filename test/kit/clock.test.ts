import {once} from 'node:events';
import {Worker} from 'node:worker_threads';
import test from 'ava';
import {createPauses, createSharedClock, inTurn, repeated, systemClock} from '../../src/kit/clock.ts';

const hour = 3_600_000;
// Between two readings a busy machine may stand still.
const tolerated = 30_000;

test('until it is set a shared clock shows the time of the system', t => {
	const clock = createSharedClock();
	t.true(Math.abs(clock.now() - systemClock.now()) < tolerated);
	t.true(Number.isInteger(clock.now()));
});

test('a clock that was set goes on from there, in whole milliseconds', t => {
	const clock = createSharedClock();
	for (const time of [systemClock.now() + hour, systemClock.now() - hour, 1234.6]) {
		clock.set(time);
		const now = clock.now();
		t.true(Number.isInteger(now));
		t.true(now >= Math.floor(time) && now < time + tolerated, String(now - time));
	}
});

test('other threads show the same time, also of a clock that is set again', async t => {
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

test('what is asked for while work is under way is done once more after it, and not after the end', async t => {
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

test('work in turn begins when what came before has ended, well or not', async t => {
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

test('long work pauses once its time is over, and lets in what waits', async t => {
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
