import test from 'ava';
import {Collector, type Hit} from '../../src/hosted/tracking.ts';
import {waitFor} from '../helpers/wait.ts';

const at = '2026-06-09T10:00:00.000Z';
const hit = (messageId: string, more: Partial<Hit> = {}): Hit => ({
	workspaceId: 'ws',
	messageId,
	role: 'to',
	address: 'a@b.test',
	type: 'opened',
	url: '',
	n: 1,
	machineN: 0,
	firstAt: at,
	lastAt: at,
	machine: false,
	userAgent: null,
	...more,
});

/** A collector whose store responds when the test says so. */
function start(options: {max?: number; retryMs?: number} = {}) {
	const written: Hit[] = [];
	const errors: unknown[] = [];
	const lost: number[] = [];
	const store = {fault: null as Error | null, open: true, waiting: [] as Array<() => void>, atOnce: 0};
	const collector = new Collector({
		async write(one) {
			store.atOnce = Math.max(store.atOnce, store.waiting.length + 1);
			if (!store.open) {
				await new Promise<void>(resolve => store.waiting.push(resolve));
			}
			if (store.fault) {
				throw store.fault;
			}
			written.push(one);
		},
		isUnavailable: error => error instanceof Error && error.message === 'busy',
		onError: error => errors.push(error),
		onLost: n => lost.push(n),
		...options,
	});
	const total = () => written.reduce((sum, {n}) => sum + n, 0);
	const release = () => {
		store.open = true;
		for (const resolve of store.waiting.splice(0)) {
			resolve();
		}
	};
	return {collector, written, errors, lost, store, total, release};
}

test('merges hits of the same link while one is being written', async t => {
	const {collector, written, store, release} = start();
	store.open = false;
	collector.add(hit('msg_1'));
	for (let n = 0; n < 1000; n++) {
		collector.add(hit('msg_1', {machineN: 1, machine: true, lastAt: '2026-06-09T11:00:00.000Z'}));
		collector.add(hit('msg_1', {type: 'clicked', url: 'https://x.test/'}));
		collector.add(hit('msg_2'));
	}
	release();
	await collector.stop();
	t.deepEqual(
		written.map(({messageId, type, n, machineN, machine}) => [messageId, type, n, machineN, machine]),
		[
			['msg_1', 'opened', 1, 0, false],
			['msg_1', 'opened', 1000, 1000, true],
			['msg_1', 'clicked', 1000, 0, false],
			['msg_2', 'opened', 1000, 0, false],
		],
	);
});

test('writes few hits at a time, and reports those lost beyond the limit', async t => {
	const {collector, lost, store, total, release} = start({max: 300});
	store.open = false;
	for (let n = 0; n < 1000; n++) {
		collector.add(hit(`msg_${n}`));
	}
	await waitFor('the first ones', () => store.waiting.length === 1);
	release();
	await collector.stop();
	t.is(total(), 301, 'one was being written');
	t.deepEqual(lost, [699]);
	t.true(store.atOnce <= 64, String(store.atOnce));
});

test('retries while the store is unavailable, without losing or double-counting hits', async t => {
	const {collector, errors, store, total, written} = start({retryMs: 5});
	store.fault = new Error('busy');
	for (let n = 0; n < 100; n++) {
		collector.add(hit(`msg_${n % 10}`));
	}
	await waitFor('a second try', () => errors.length > 10);
	collector.add(hit('msg_1', {machine: true}));
	store.fault = null;
	await waitFor('all written', () => total() === 101);
	await collector.stop();
	t.is(total(), 101);
	t.true(
		written.every(({machine}) => !machine),
		'the earlier one tells of itself',
	);
});

test('reports and drops a hit that fails by itself', async t => {
	const {collector, errors, store, total} = start();
	store.fault = new Error('no such row');
	collector.add(hit('msg_1'));
	await collector.stop();
	t.is(errors.length, 1);
	store.fault = null;
	collector.add(hit('msg_2'));
	await collector.stop();
	t.is(total(), 1);
});

test('stop retries a failing store once and finishes', async t => {
	const {collector, errors, store} = start({retryMs: 3_600_000});
	store.fault = new Error('busy');
	collector.add(hit('msg_1'));
	await waitFor('the pause', () => errors.length === 1);
	await collector.stop();
	t.is(errors.length, 2);
});
