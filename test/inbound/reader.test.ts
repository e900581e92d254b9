import {Worker} from 'node:worker_threads';
import test, {type ExecutionContext} from 'ava';
import {MailReader, UnfinishedError, UnreadableError} from '../../src/inbound/mail-reader.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {waitFor} from '../helpers/wait.ts';

type ReaderOptions = ConstructorParameters<typeof MailReader>[0];

// A reader that does what the message says, with the same protocol as the real one.
const obeying = `
	const {parentPort, workerData} = require('node:worker_threads');
	const told = new Int32Array(workerData.shared);
	parentPort.on('message', ({jobs}) => {
		parentPort.postMessage({kind: 'done', results: jobs.map(({raw}) => {
			Atomics.add(told, 0, 1);
			Atomics.store(told, 1, 1);
			const text = Buffer.from(raw).toString();
			if (text === 'hang') for (;;);
			if (text === 'die') process.exit(1);
			if (text === 'eat') { const all = []; for (;;) all.push(new Array(1e5).fill(Math.random())); }
			Atomics.store(told, 1, 0);
			return {kind: 'other', fault: text === 'odd' ? () => text : text};
		})});
	});
`;

function readerOf(t: ExecutionContext, options: Partial<ReaderOptions> = {}) {
	const crashes: string[] = [];
	let spawned = 0;
	const reader = new MailReader({
		limitMs: 300,
		clock: systemClock,
		cpu: () => performance.now(),
		observer: {workerEnded: reason => crashes.push(reason)},
		spawn(shared) {
			spawned++;
			return new Worker(obeying, {
				eval: true,
				workerData: {shared},
				resourceLimits: {maxOldGenerationSizeMb: 32},
			});
		},
		...options,
	});
	t.teardown(() => reader.stop());
	const read = async (text: string) => (await reader.read({kind: 'event', raw: Buffer.from(text)})).fault;
	return {reader, read, crashes, spawned: () => spawned};
}

test('reads messages in one thread, which starts with the first message', async t => {
	const {read, spawned} = readerOf(t);
	t.is(spawned(), 0);
	const texts = Array.from({length: 100}, (_, n) => `mail ${n}`);
	t.deepEqual(await Promise.all(texts.map(read)), texts);
	t.is(spawned(), 1);
});

test('ends an idle thread and starts another one for the next message', async t => {
	const ended: number[] = [];
	let spawned = 0;
	const {read, crashes} = readerOf(t, {
		restMs: 50,
		spawn(shared) {
			spawned++;
			return new Worker(obeying, {eval: true, workerData: {shared}}).on('exit', code => ended.push(code));
		},
	});
	for (const thread of [1, 2]) {
		t.is(await read('mail'), 'mail');
		await waitFor('the thread is ended', async () => ended.length === thread);
		t.is(spawned, thread);
	}
	t.deepEqual(crashes, []);
});

for (const [text, name] of [
	['hang', 'never ends'],
	['eat', 'takes all memory'],
	['die', 'ends the thread'],
	['odd', 'says what cannot be handed over'],
] as const) {
	test(`retries a message whose reading ${name} alone, then gives it up, and reads the others`, async t => {
		const {read, spawned, crashes} = readerOf(t);
		const beside = ['a', 'b', text, 'c', 'd'];
		const ends = await Promise.allSettled(beside.map(read));
		t.deepEqual(
			ends.map(end => (end.status === 'fulfilled' ? end.value : end.reason.constructor)),
			['a', 'b', UnreadableError, 'c', 'd'],
		);
		t.is(await read('after'), 'after');
		t.is(spawned(), 3);
		t.true(text === 'die' || crashes.length >= 2);
	});
}

test('leaves a message for later, and does not give it up, if the thread gets no CPU time', async t => {
	const {read} = readerOf(t, {limitMs: 20, cpu: () => 0});
	await t.throwsAsync(read('hang'), {instanceOf: UnfinishedError});
});

test('on stop, rejects waiting messages and starts no thread', async t => {
	const {reader, read, spawned} = readerOf(t, {limitMs: 600_000});
	const hanging = t.throwsAsync(read('hang'), {instanceOf: UnfinishedError});
	await waitFor('the thread is there', () => spawned() === 1);
	const waiting = t.throwsAsync(read('x'), {instanceOf: UnfinishedError});
	await reader.stop();
	await Promise.all([hanging, waiting]);
	await t.throwsAsync(read('y'), {instanceOf: UnfinishedError});
	t.is(spawned(), 1);
});
