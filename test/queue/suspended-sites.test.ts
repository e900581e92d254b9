import test from 'ava';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import {type ClaimPermit, travelTerms} from '../../src/queue/claim-permit.ts';
import type {SiteEnd} from '../../src/queue/pace/site-state.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, claimAll, key, minute, own, permitsOf, queuesOf, settle, silent, well} from './on-queues.ts';

test('suspends a failing provider, then probes it with one recipient and resumes on success', t => {
	const queues = queuesOf();
	const route = own({failures: 3});
	queues.scanned(key('dead.test'), 0, at(0));
	const [permit] = permitsOf(queues, route) as [ClaimPermit];
	queues.claimed(permit, brought(5), at(0));
	settle(queues, permit, 5, silent);
	t.deepEqual(permitsOf(queues, route), []);
	t.is(travelTerms(permit, at(minute - 1)), null, 'what was claimed before is not tried now');

	queues.advance(at(minute));
	const [probe, ...others] = permitsOf(queues, route, minute) as [ClaimPermit];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	queues.claimed(probe, brought(1), at(minute));
	t.deepEqual(permitsOf(queues, route, minute), []);
	settle(queues, probe, 1, silent, minute);
	queues.advance(at(2 * minute));
	t.deepEqual(permitsOf(queues, route, 2 * minute), [], 'two minutes the second time');

	queues.advance(at(3 * minute));
	const [second] = permitsOf(queues, route, 3 * minute) as [ClaimPermit];
	queues.claimed(second, brought(1), at(3 * minute));
	settle(queues, second, 1, well, 3 * minute);
	t.is(permitsOf(queues, route, 3 * minute)[0]?.limit, 20);
});

test('probes a provider at once when an operator resumes it, and suspends it again on failure', t => {
	const queues = queuesOf();
	const route = own({failures: 3});
	queues.scanned(key('dead.test'), 0, at(0));
	const [permit] = permitsOf(queues, route) as [ClaimPermit];
	queues.claimed(permit, brought(5), at(0));
	settle(queues, permit, 5, silent);
	queues.probe(['other.test'], at(1000));
	t.deepEqual(permitsOf(queues, route, 1000), []);
	queues.probe([permit.site.name], at(1000));
	const [probe, ...others] = permitsOf(queues, route, 1000) as [ClaimPermit];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	queues.claimed(probe, brought(1), at(1000));
	settle(queues, probe, 1, silent, 1000);
	queues.advance(at(1000 + 2 * minute - 1));
	t.deepEqual(permitsOf(queues, route, 1000 + 2 * minute - 1), []);
	queues.advance(at(1000 + 2 * minute));
	t.is(permitsOf(queues, route, 1000 + 2 * minute)[0]?.limit, 1);
});

test('holds mail for a destination that an operator suspended until it is resumed', t => {
	const queues = queuesOf();
	queues.suspend(new Set(['a.test']), at(0));
	queues.arrived(key('a.test'), at(0));
	queues.arrived(key('b.test'), at(0));
	t.deepEqual(
		claimAll(queues, own(), 1).map(permit => permit.queue.destination),
		['b.test'],
	);
	t.deepEqual(
		[...queues.waiting(at(0))].map(queue => queue.state),
		['suspended'],
	);
	queues.suspend(new Set(), at(0));
	t.deepEqual(
		claimAll(queues, own(), 1).map(permit => permit.queue.destination),
		['a.test'],
	);
});

test('keeps a provider suspended, however many others had mail since', t => {
	const queues = queuesOf();
	const once = (name: string, end: SiteEnd, now: number) => {
		queues.arrived(key(name), at(now));
		for (const permit of permitsOf(queues, own({failures: 1}), now)) {
			queues.claimed(permit, brought(1), at(now));
			queues.done(permit, end, at(now));
		}
	};
	once('dead.test', silent, 0);
	for (let n = 0; n <= 10_000; n++) {
		once(`site${n}.test`, well, 1);
	}
	queues.arrived(key('dead.test'), at(2));
	t.deepEqual(permitsOf(queues, own({failures: 1}), 2), []);
});

test('probes a provider resumed by an operator once its mail is due', t => {
	const saved: SavedSite = {
		...{suspendedUntil: 60 * minute, reason: 'no', step: 6, window: 1},
		waitsFor: 'suspension',
		advice: null,
		...{slowUntil: null, slowPerMinute: null, slowConnections: null, slowReason: null, mailsPerSession: null},
	};
	const queues = queuesOf({remembered: () => saved});
	queues.probe(['a.test'], at(0));
	queues.arrived(key('a.test'), at(minute));
	queues.arrived(key('b.test'), at(minute));
	t.deepEqual(
		permitsOf(queues, own(), minute).map(({queue, limit}) => [queue.destination, limit]),
		[['a.test', 1]],
	);
});

test('reports queues whose mail is due later as waiting while their provider is suspended', t => {
	const queues = queuesOf();
	const route = () => routeTo('mx.test', {failures: 2, startConnections: 4});
	const waiting = (now: number) => [...queues.waiting(at(now))].map(queue => queue.destination).sort();
	const fail = (destination: string, now: number) => {
		queues.arrived(key(destination), at(now));
		for (const permit of permitsOf(queues, route, now)) {
			queues.claimed(permit, brought(1), at(now));
			queues.due(permit.queue, now + 60 * minute, at(now));
			queues.done(permit, silent, at(now));
		}
	};
	fail('a.test', 0);
	t.deepEqual(waiting(0), []);
	fail('b.test', 1000);
	t.deepEqual(waiting(1000), ['a.test', 'b.test'], 'also what rested before the site was left alone');
	t.deepEqual(waiting(1000 + minute), [], 'one copy may try it now');

	fail('c.test', 1000 + minute);
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test']);
	queues.arrived(key('a.test'), at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test'], 'each once');
	queues.renew(at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'c.test'], 'the others may go elsewhere');
});
