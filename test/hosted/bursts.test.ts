import {EventEmitter, once} from 'node:events';
import test from 'ava';
import {Bursts} from '../../src/hosted/bursts.ts';
import type {Hit} from '../../src/hosted/tracking.ts';
import {systemClock} from '../../src/kit/clock.ts';

const at = '2026-06-09T10:00:00.000Z';

function click(url: string, more: Partial<Hit> = {}): Hit {
	const whose = {workspaceId: 'ws', messageId: 'msg', role: 'to', address: 'ada@a.test'} as const;
	const counted = {n: 1, machineN: 0, firstAt: at, lastAt: at, machine: false, userAgent: 'Firefox'};
	return {...whose, type: 'clicked', url, ...counted, ...more};
}

function start(options: {quietMs?: number; maxMs?: number; max?: number} = {}) {
	const passed: Hit[] = [];
	const news = new EventEmitter();
	const pass = (hit: Hit) => {
		passed.push(hit);
		news.emit('passed');
	};
	const bursts = new Bursts({pass, clock: systemClock, quietMs: 60_000, ...options});
	return {bursts, passed, news};
}

const shown = (hits: readonly Hit[]) => hits.map(({url, n, together}) => [url, n, together]);

test('groups the clicks from one IP address, with each link once', t => {
	const {bursts, passed} = start();
	for (const url of ['a', 'b', 'a', 'c']) {
		bursts.add(click(url, {from: '192.0.2.1'}));
	}
	bursts.add(click('a', {from: '192.0.2.2'}));
	bursts.add(click('a', {address: 'bob@a.test', from: '192.0.2.1'}));
	t.deepEqual(passed, []);
	bursts.stop();
	t.deepEqual(shown(passed), [
		['a', 2, 3],
		['b', 1, 3],
		['c', 1, 3],
		['a', 1, 1],
		['a', 1, 1],
	]);
});

test('a burst ends if no other link follows, or after its maximum duration', async t => {
	for (const options of [{quietMs: 1}, {maxMs: 0}]) {
		const {bursts, passed, news} = start(options);
		bursts.add(click('a', {from: '192.0.2.1'}));
		await once(news, 'passed');
		t.deepEqual(shown(passed), [['a', 1, 1]]);
		bursts.stop();
		t.is(passed.length, 1);
	}
});

test('passes clicks beyond the limit on at once', t => {
	const {bursts, passed} = start({max: 1});
	bursts.add(click('b', {from: '192.0.2.1'}));
	bursts.add(click('c', {from: '192.0.2.2'}));
	t.deepEqual(shown(passed), [['c', 1, 1]]);
	bursts.stop();
	t.deepEqual(shown(passed.slice(1)), [['b', 1, 1]]);
});
