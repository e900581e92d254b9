import {once} from 'node:events';
import {Worker} from 'node:worker_threads';
import test from 'ava';
import {createSharedClock, systemClock} from '../../src/kit/clock.ts';

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
