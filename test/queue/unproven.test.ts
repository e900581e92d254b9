import test from 'ava';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import type {DestinationQueues} from '../../src/queue/destination-queues.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, queuesOf, silent} from './on-queues.ts';

function claims(queues: DestinationQueues, siteOf: (destination: string) => string = name => name): ClaimPermit[] {
	for (let queue = queues.nextToFind(true); queue; queue = queues.nextToFind(true)) {
		queues.placed(queue, routeTo(siteOf(queue.destination)), at(0));
	}
	const granted = queues.permits(at(0));
	for (const permit of granted) {
		queues.claimed(permit, {count: 1, nextDue: null, warmedUp: null}, at(0));
	}
	return granted;
}

/** Claims until the room is taken. */
function claimAll(queues: DestinationQueues, siteOf?: (destination: string) => string): ClaimPermit[] {
	const claimed: ClaimPermit[] = [];
	for (let granted = claims(queues, siteOf); granted.length > 0; granted = claims(queues, siteOf)) {
		claimed.push(...granted);
	}
	return claimed;
}

for (const rank of ['fresh', 'backlog'] as const) {
	test(`10,000 silent sites of one workspace do not stand before another one's new site: ${rank}`, t => {
		const queues = queuesOf({maxUnproven: 48});
		const add = (destination: string, workspaceId: string) =>
			rank === 'fresh'
				? queues.arrived({destination, workspaceId}, at(0))
				: queues.due({destination, workspaceId}, 0, at(0));
		for (let n = 0; n < 10_000; n++) {
			add(`dead${n}.test`, 'ws_big');
		}
		const running = claimAll(queues);
		add('new.test', 'ws_small');
		t.deepEqual(claimAll(queues), [], 'all room is taken');
		const next: string[] = [];
		for (let ends = 0; ends < 5; ends++) {
			queues.done(running.shift() as ClaimPermit, silent, at(0));
			next.push(...claimAll(queues).map(permit => permit.queue.destination));
		}
		t.true(next.slice(0, 2).includes('new.test'), next.join(' '));
		t.true(next.length >= 5, 'and the other one goes on');
	});
}

test('a workspace that shares a site with a large one gets its turn there as at one of its own', t => {
	const queues = queuesOf({maxUnproven: 48});
	for (let n = 0; n < 1000; n++) {
		queues.arrived({destination: `dead${n}.test`, workspaceId: 'ws_big'}, at(0));
	}
	const siteOf = (name: string) => (name.startsWith('dead') ? name : 'shared.test');
	const running = claimAll(queues, siteOf);
	queues.arrived({destination: 'a.test', workspaceId: 'ws_big'}, at(0));
	queues.arrived({destination: 'b.test', workspaceId: 'ws_small'}, at(0));
	t.deepEqual(claimAll(queues, siteOf), [], 'all room is taken');
	const next: string[] = [];
	for (let ends = 0; ends < 3; ends++) {
		queues.done(running.shift() as ClaimPermit, silent, at(0));
		next.push(...claimAll(queues, siteOf).map(permit => permit.queue.destination));
	}
	t.true(next.slice(0, 2).includes('b.test'), next.join(' '));
});
