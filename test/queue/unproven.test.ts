import test from 'ava';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import type {DestinationQueues} from '../../src/queue/destination-queues.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, queuesOf, silent, well} from './on-queues.ts';

function claims(queues: DestinationQueues): ClaimPermit[] {
	for (let queue = queues.nextToFind(true); queue; queue = queues.nextToFind(true)) {
		queues.placed(queue, routeTo(queue.destination), at(0));
	}
	const granted = queues.permits(at(0));
	for (const permit of granted) {
		queues.claimed(permit, {count: 1, nextDue: null, warmedUp: null}, at(0));
	}
	return granted;
}

const names = (permits: readonly ClaimPermit[]) => permits.map(({queue}) => queue.destination);

/** Claims until the capacity is used up. */
function claimAll(queues: DestinationQueues): ClaimPermit[] {
	const claimed: ClaimPermit[] = [];
	for (let granted = claims(queues); granted.length > 0; granted = claims(queues)) {
		claimed.push(...granted);
	}
	return claimed;
}

for (const rank of ['fresh', 'backlog'] as const) {
	test(`leaves room for a new provider of another workspace beside 10,000 silent ones: ${rank}`, t => {
		const queues = queuesOf({maxUnproven: 48});
		const add = (destination: string, workspaceId: string) =>
			rank === 'fresh'
				? queues.arrived({destination, workspaceId}, at(0))
				: queues.due({destination, workspaceId}, 0, at(0));
		for (let n = 0; n < 10_000; n++) {
			add(`dead${n}.test`, 'ws_big');
		}
		const running = claimAll(queues);
		t.deepEqual(claimAll(queues), [], 'it has its share');
		for (const name of ['a', 'b', 'c']) {
			add(`${name}.test`, `ws_${name}`);
			t.deepEqual(names(claimAll(queues)), [`${name}.test`]);
		}
		// As others have work, it gets nothing more until it has less than half.
		while (running.length > 23) {
			t.deepEqual(claimAll(queues), []);
			queues.done(running.shift() as ClaimPermit, null, at(0));
		}
	});
}

test('makes room for new mail, within limits, when providers stay silent for a while', t => {
	const queues = queuesOf({maxUnproven: 48});
	for (let n = 0; n < 1000; n++) {
		queues.arrived({destination: `dead${n}.test`, workspaceId: 'ws_big'}, at(0));
	}
	const first = claimAll(queues);
	t.is(first.length, 36, 'alone it leaves a quarter');
	for (const {site} of first.slice(0, 20)) {
		queues.quiet(site.name, at(5000));
	}
	const next = claimAll(queues).length;
	t.true(next >= 5 && next <= 7 && queues.inFlight === 36 + next, `${next}: it leaves a quarter of what is left`);
	queues.arrived({destination: 'new.test', workspaceId: 'ws_small'}, at(5000));
	t.deepEqual(names(claimAll(queues)), ['new.test']);
	for (const permit of first) {
		queues.done(permit, silent, at(10_000));
	}
	t.true(claimAll(queues).length > 10, 'what ended is free');
});

test('leaves room for new providers and other workspaces beside previously silent ones', t => {
	const queues = queuesOf({maxUnproven: 48});
	const names = Array.from({length: 100}, (_, n) => `dead${n}.test`);
	for (const destination of names) {
		queues.arrived({destination, workspaceId: 'ws_big'}, at(0));
	}
	for (let permits = claimAll(queues); permits.length > 0; permits = claimAll(queues)) {
		for (const permit of permits) {
			queues.done(permit, silent, at(0));
			queues.due(permit.queue, 60_000, at(0));
		}
	}
	queues.advance(at(60_000));
	const again = claimAll(queues);
	t.is(again.length, 24, 'half');
	t.true(again.every(({pool}) => pool === 'silent'));
	queues.arrived({destination: 'dead99.test', workspaceId: 'ws_small'}, at(60_000));
	t.is(claimAll(queues).at(0)?.queue.workspaceId, 'ws_small');
	queues.arrived({destination: 'new.test', workspaceId: 'ws_big'}, at(60_000));
	t.is(claimAll(queues).at(0)?.queue.destination, 'new.test');
});

test('keeps a proven provider proven when one of its sessions gets no response', t => {
	const queues = queuesOf({maxUnproven: 48});
	queues.arrived({destination: 'well.test', workspaceId: 'ws_1'}, at(0));
	const [permit] = claimAll(queues) as [ClaimPermit];
	queues.done(permit, well, at(0));
	queues.quiet('well.test', at(0));
	queues.quiet('unknown.test', at(0));
	t.is(permit.site.state.isResponding, true);
});
