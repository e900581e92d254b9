import test from 'ava';
import type {Route} from '../../src/mail/route.ts';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, key, minute, own, permitsOf, queuesOf, settle, silent, well} from './on-queues.ts';

test('sends no more than the rate allows, and holds no message back forever', t => {
	const queues = queuesOf();
	const route = own({perMinute: 60});
	queues.scanned(key('slow.test'), 0, at(0));
	const times: number[] = [];
	for (let now = 0; now < 3 * minute; now += 100) {
		queues.advance(at(now));
		for (const permit of permitsOf(queues, route, now)) {
			queues.claimed(permit, brought(permit.limit), at(now));
			settle(queues, permit, permit.limit, well, now);
			times.push(...new Array(permit.limit).fill(now));
		}
	}
	const inMinute = times.map(from => times.filter(time => time >= from && time < from + minute).length);
	t.true(Math.max(...inMinute) <= 60, String(Math.max(...inMinute)));
	t.true(times.length > 170, String(times.length));
});

test('sends what exceeds the daily limit of a new source by another route, or the next day', t => {
	const overflow = routeTo('relay');
	const warm = (more: Route['warmUp']) => ({...routeTo('mx.test'), warmUp: more});
	const limited = {source: '192.0.2.1', group: 'big', perDay: 3};
	const noon = 12 * 60 * minute;
	for (const elsewhere of [overflow, null]) {
		const queues = queuesOf();
		const route = () => warm({...limited, overflow: elsewhere});
		queues.scanned(key('a.test'), 0, at(noon));
		const [first] = permitsOf(queues, route, noon) as [ClaimPermit];
		t.deepEqual([first.site.name, first.limit], ['mx.test', 3]);
		t.like(first.warmUp, {source: '192.0.2.1', group: 'big', day: '1970-01-01', perDay: 3});
		queues.claimed(first, {count: 3, nextDue: null, warmedUp: 3}, at(noon));
		settle(queues, first, 3, well, noon);
		t.deepEqual(permitsOf(queues, route, noon), [], 'it changes its place');
		const [second] = permitsOf(queues, route, noon);
		if (elsewhere) {
			t.deepEqual([second?.site.name, second?.warmUp], ['relay', null]);
			continue;
		}
		t.is(second, undefined);
		t.deepEqual(
			[...queues.waiting(at(noon))].map(queue => queue.state),
			['spent'],
		);
		queues.advance(at(24 * 60 * minute));
		t.is(permitsOf(queues, route, 24 * 60 * minute)[0]?.site.name, 'mx.test');
	}
});

test('moves mail to another provider when its mail servers change', t => {
	const queues = queuesOf();
	queues.arrived(key('a.test'), at(0));
	const [first] = permitsOf(queues) as [ClaimPermit];
	queues.claimed(first, brought(5), at(0));
	settle(queues, first, 1, well, 2 * minute);
	const [later] = permitsOf(queues, () => routeTo('elsewhere.test'), 2 * minute) as [ClaimPermit];
	t.is(later.site.name, 'a.test', 'a lane goes on while its way is found anew');
	queues.claimed(later, brought(later.limit), at(2 * minute));
	t.is(permitsOf(queues, () => routeTo('elsewhere.test'), 2 * minute)[0]?.site.name, 'elsewhere.test');
	settle(queues, later, 2);
	t.is(first.site.inFlight, later.limit + 5 - 3);
});

test('uses a changed route at once, even for mail waiting at a suspended provider', t => {
	const queues = queuesOf();
	queues.arrived(key('a.test'), at(0));
	const [permit] = permitsOf(queues, () => routeTo('dead.test', {failures: 1})) as [ClaimPermit];
	queues.claimed(permit, brought(1), at(0));
	settle(queues, permit, 1, silent);
	queues.due(key('a.test'), 0, at(0));
	t.deepEqual(
		permitsOf(queues, () => routeTo('dead.test', {failures: 1})),
		[],
		'its site is left alone',
	);
	t.deepEqual(
		permitsOf(queues, () => routeTo('relay')),
		[],
		'its way is known',
	);
	queues.renew(at(0));
	t.deepEqual(
		permitsOf(queues, () => routeTo('relay')).map(({site}) => site.name),
		['relay'],
	);
});

test('sends nothing by the old route while the new one is looked up', t => {
	const queues = queuesOf();
	for (const destination of ['claiming.test', 'ready.test']) {
		queues.arrived(key(destination), at(0));
	}
	const [permit] = permitsOf(queues, () => routeTo('former', {startConnections: 1, connections: 1})) as [ClaimPermit];
	queues.renew(at(0));
	queues.arrived(permit.queue, at(0));
	queues.claimed(permit, brought(1), at(0));
	settle(queues, permit, 1);
	t.deepEqual(queues.permits(at(0)), [], 'neither what waited nor what arrived since');
	const went: string[] = [];
	for (let turn = 0; turn < 2; turn++) {
		for (const found of permitsOf(queues, () => routeTo('relay'))) {
			queues.claimed(found, brought(0), at(0));
			went.push(`${found.queue.destination} ${found.site.name}`);
		}
	}
	t.deepEqual(went.sort(), ['claiming.test relay', 'ready.test relay']);
	t.deepEqual(
		[...queues.sites()].map(({name, queues: count}) => `${name} ${count}`),
		['former 0', 'relay 0'],
		'each left where it was once',
	);
});

test('sends what exceeds the daily limit of a new source once its route has an overflow', t => {
	const queues = queuesOf();
	const warmUp = {source: '192.0.2.1', group: 'default', perDay: 0, overflow: null};
	queues.arrived(key('a.test'), at(0));
	t.deepEqual(
		permitsOf(queues, () => ({...routeTo('a.test'), warmUp})),
		[],
	);
	queues.renew(at(0));
	const permits = permitsOf(queues, () => ({...routeTo('a.test'), warmUp: {...warmUp, overflow: routeTo('relay')}}));
	t.deepEqual(
		permits.map(({site}) => site.name),
		['relay'],
	);
});
