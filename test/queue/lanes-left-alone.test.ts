import test from 'ava';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import type {SiteEnd} from '../../src/pace/site.ts';
import type {Grant} from '../../src/queue/grants.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, claimAll, grantsOf, key, lanesOf, minute, own, settle, silent, well} from './on-lanes.ts';

test('a site that backs off is left alone, then probed by one copy, whose success ends it', t => {
	const lanes = lanesOf();
	const route = own({failures: 3});
	lanes.found(key('dead.test'), 0, at(0));
	const [grant] = grantsOf(lanes, route) as [Grant];
	lanes.claimed(grant, brought(5), at(0));
	settle(lanes, grant, 5, silent);
	t.deepEqual(grantsOf(lanes, route), []);
	t.is(lanes.travelTerms(grant, at(minute - 1)), null, 'what was claimed before is not tried now');

	lanes.advance(at(minute));
	const [probe, ...others] = grantsOf(lanes, route, minute) as [Grant];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	lanes.claimed(probe, brought(1), at(minute));
	t.deepEqual(grantsOf(lanes, route, minute), []);
	settle(lanes, probe, 1, silent, minute);
	lanes.advance(at(2 * minute));
	t.deepEqual(grantsOf(lanes, route, 2 * minute), [], 'two minutes the second time');

	lanes.advance(at(3 * minute));
	const [second] = grantsOf(lanes, route, 3 * minute) as [Grant];
	lanes.claimed(second, brought(1), at(3 * minute));
	settle(lanes, second, 1, well, 3 * minute);
	t.is(grantsOf(lanes, route, 3 * minute)[0]?.limit, 20);
});

test('a site that an operator resumes is probed at once, and left alone again if it fails', t => {
	const lanes = lanesOf();
	const route = own({failures: 3});
	lanes.found(key('dead.test'), 0, at(0));
	const [grant] = grantsOf(lanes, route) as [Grant];
	lanes.claimed(grant, brought(5), at(0));
	settle(lanes, grant, 5, silent);
	lanes.probe(['other.test'], at(1000));
	t.deepEqual(grantsOf(lanes, route, 1000), []);
	lanes.probe([grant.site.name], at(1000));
	const [probe, ...others] = grantsOf(lanes, route, 1000) as [Grant];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	lanes.claimed(probe, brought(1), at(1000));
	settle(lanes, probe, 1, silent, 1000);
	lanes.advance(at(1000 + 2 * minute - 1));
	t.deepEqual(grantsOf(lanes, route, 1000 + 2 * minute - 1), []);
	lanes.advance(at(1000 + 2 * minute));
	t.is(grantsOf(lanes, route, 1000 + 2 * minute)[0]?.limit, 1);
});

test('mail for a destination that an operator suspended waits until it is resumed', t => {
	const lanes = lanesOf();
	lanes.suspend(new Set(['a.test']), at(0));
	lanes.arrived(key('a.test'), at(0));
	lanes.arrived(key('b.test'), at(0));
	t.deepEqual(
		claimAll(lanes, own(), 1).map(grant => grant.lane.destination),
		['b.test'],
	);
	t.deepEqual(
		[...lanes.waiting(at(0))].map(lane => lane.state),
		['suspended'],
	);
	lanes.suspend(new Set(), at(0));
	t.deepEqual(
		claimAll(lanes, own(), 1).map(grant => grant.lane.destination),
		['a.test'],
	);
});

test('a site that is left alone stays so, however many others had mail since', t => {
	const lanes = lanesOf();
	const once = (name: string, end: SiteEnd, now: number) => {
		lanes.arrived(key(name), at(now));
		for (const grant of grantsOf(lanes, own({failures: 1}), now)) {
			lanes.claimed(grant, brought(1), at(now));
			lanes.done(grant, end, at(now));
		}
	};
	once('dead.test', silent, 0);
	for (let n = 0; n <= 10_000; n++) {
		once(`site${n}.test`, well, 1);
	}
	lanes.arrived(key('dead.test'), at(2));
	t.deepEqual(grantsOf(lanes, own({failures: 1}), 2), []);
});

test('a site that an operator resumes before any of its mail is due is probed when it is', t => {
	const saved: SavedSite = {
		...{suspendedUntil: 60 * minute, reason: 'no', step: 6, window: 1},
		waitsFor: 'suspension',
		...{slowUntil: null, slowPerMinute: null, slowConnections: null, mailsPerSession: null},
	};
	const lanes = lanesOf({remembered: () => saved});
	lanes.probe(['a.test'], at(0));
	lanes.arrived(key('a.test'), at(minute));
	lanes.arrived(key('b.test'), at(minute));
	t.deepEqual(
		grantsOf(lanes, own(), minute).map(({lane, limit}) => [lane.destination, limit]),
		[['a.test', 1]],
	);
});

test('lanes whose mail is due later wait too while their site is left alone', t => {
	const lanes = lanesOf();
	const route = () => routeTo('mx.test', {failures: 2, startConnections: 4});
	const waiting = (now: number) => [...lanes.waiting(at(now))].map(lane => lane.destination).sort();
	const fail = (destination: string, now: number) => {
		lanes.arrived(key(destination), at(now));
		for (const grant of grantsOf(lanes, route, now)) {
			lanes.claimed(grant, brought(1), at(now));
			lanes.due(grant.lane, now + 60 * minute, at(now));
			lanes.done(grant, silent, at(now));
		}
	};
	fail('a.test', 0);
	t.deepEqual(waiting(0), []);
	fail('b.test', 1000);
	t.deepEqual(waiting(1000), ['a.test', 'b.test'], 'also what rested before the site was left alone');
	t.deepEqual(waiting(1000 + minute), [], 'one copy may try it now');

	fail('c.test', 1000 + minute);
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test']);
	lanes.arrived(key('a.test'), at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test'], 'each once');
	lanes.renew(at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'c.test'], 'the others may go elsewhere');
});
