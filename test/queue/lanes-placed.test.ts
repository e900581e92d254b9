import test from 'ava';
import type {Route} from '../../src/mail/route.ts';
import type {Grant} from '../../src/queue/grants.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, grantsOf, key, lanesOf, minute, own, settle, silent, well} from './on-lanes.ts';

test('no more mails go than the rate allows, and none is held back for ever', t => {
	const lanes = lanesOf();
	const route = own({perMinute: 60});
	lanes.found(key('slow.test'), 0, at(0));
	const times: number[] = [];
	for (let now = 0; now < 3 * minute; now += 100) {
		lanes.advance(at(now));
		for (const grant of grantsOf(lanes, route, now)) {
			lanes.claimed(grant, brought(grant.limit), at(now));
			settle(lanes, grant, grant.limit, well, now);
			times.push(...new Array(grant.limit).fill(now));
		}
	}
	const inMinute = times.map(from => times.filter(time => time >= from && time < from + minute).length);
	t.true(Math.max(...inMinute) <= 60, String(Math.max(...inMinute)));
	t.true(times.length > 170, String(times.length));
});

test('what a new source may not send today goes another way, or waits for tomorrow', t => {
	const overflow = routeTo('relay');
	const warm = (more: Route['warmUp']) => ({...routeTo('mx.test'), warmUp: more});
	const limited = {source: '192.0.2.1', group: 'big', perDay: 3};
	const noon = 12 * 60 * minute;
	for (const elsewhere of [overflow, null]) {
		const lanes = lanesOf();
		const route = () => warm({...limited, overflow: elsewhere});
		lanes.found(key('a.test'), 0, at(noon));
		const [first] = grantsOf(lanes, route, noon) as [Grant];
		t.deepEqual([first.site.name, first.limit], ['mx.test', 3]);
		t.like(first.warmUp, {source: '192.0.2.1', group: 'big', day: '1970-01-01', perDay: 3});
		lanes.claimed(first, {count: 3, nextDue: null, warmedUp: 3}, at(noon));
		settle(lanes, first, 3, well, noon);
		t.deepEqual(grantsOf(lanes, route, noon), [], 'it changes its place');
		const [second] = grantsOf(lanes, route, noon);
		if (elsewhere) {
			t.deepEqual([second?.site.name, second?.warmUp], ['relay', null]);
			continue;
		}
		t.is(second, undefined);
		t.deepEqual(
			[...lanes.waiting(at(noon))].map(lane => lane.state),
			['spent'],
		);
		lanes.advance(at(24 * 60 * minute));
		t.is(grantsOf(lanes, route, 24 * 60 * minute)[0]?.site.name, 'mx.test');
	}
});

test('mail moves to another site when its hosts change', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [first] = grantsOf(lanes) as [Grant];
	lanes.claimed(first, brought(5), at(0));
	settle(lanes, first, 1, well, 2 * minute);
	const [later] = grantsOf(lanes, () => routeTo('elsewhere.test'), 2 * minute) as [Grant];
	t.is(later.site.name, 'a.test', 'a lane goes on while its way is found anew');
	lanes.claimed(later, brought(later.limit), at(2 * minute));
	t.is(grantsOf(lanes, () => routeTo('elsewhere.test'), 2 * minute)[0]?.site.name, 'elsewhere.test');
	settle(lanes, later, 2);
	t.is(first.site.inFlight.fresh, later.limit + 5 - 3);
});

test('a way that leads elsewhere holds at once, also for what waits at a site that is left alone', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [grant] = grantsOf(lanes, () => routeTo('dead.test', {failures: 1})) as [Grant];
	lanes.claimed(grant, brought(1), at(0));
	settle(lanes, grant, 1, silent);
	lanes.due(key('a.test'), 0, at(0));
	t.deepEqual(
		grantsOf(lanes, () => routeTo('dead.test', {failures: 1})),
		[],
		'its site is left alone',
	);
	t.deepEqual(
		grantsOf(lanes, () => routeTo('relay')),
		[],
		'its way is known',
	);
	lanes.renew(at(0));
	t.deepEqual(
		grantsOf(lanes, () => routeTo('relay')).map(({site}) => site.name),
		['relay'],
	);
});

test('nothing goes the former way while the new one is being found', t => {
	const lanes = lanesOf();
	for (const destination of ['claiming.test', 'ready.test']) {
		lanes.arrived(key(destination), at(0));
	}
	const [grant] = grantsOf(lanes, () => routeTo('former', {startConnections: 1, connections: 1})) as [Grant];
	lanes.renew(at(0));
	lanes.arrived(grant.lane, at(0));
	lanes.claimed(grant, brought(1), at(0));
	settle(lanes, grant, 1);
	t.deepEqual(lanes.grants(at(0)), [], 'neither what waited nor what arrived since');
	const went: string[] = [];
	for (let turn = 0; turn < 2; turn++) {
		for (const found of grantsOf(lanes, () => routeTo('relay'))) {
			lanes.claimed(found, brought(0), at(0));
			went.push(`${found.lane.destination} ${found.site.name}`);
		}
	}
	t.deepEqual(went.sort(), ['claiming.test relay', 'ready.test relay']);
	t.deepEqual(
		[...lanes.sites()].map(({name, lanes: count}) => `${name} ${count}`),
		['former 0', 'relay 0'],
		'each left where it was once',
	);
});

test('what a new source may not send today goes on when its way gets an overflow', t => {
	const lanes = lanesOf();
	const warmUp = {source: '192.0.2.1', group: 'default', perDay: 0, overflow: null};
	lanes.arrived(key('a.test'), at(0));
	t.deepEqual(
		grantsOf(lanes, () => ({...routeTo('a.test'), warmUp})),
		[],
	);
	lanes.renew(at(0));
	const grants = grantsOf(lanes, () => ({...routeTo('a.test'), warmUp: {...warmUp, overflow: routeTo('relay')}}));
	t.deepEqual(
		grants.map(({site}) => site.name),
		['relay'],
	);
});
