import test from 'ava';
import type {Grant} from '../../src/queue/grants.ts';
import type {Lanes} from '../../src/queue/lanes.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, lanesOf, silent} from './on-lanes.ts';

function claims(lanes: Lanes, siteOf: (destination: string) => string = name => name): Grant[] {
	for (let lane = lanes.nextToFind(true); lane; lane = lanes.nextToFind(true)) {
		lanes.placed(lane, routeTo(siteOf(lane.destination)), at(0));
	}
	const granted = lanes.grants(at(0));
	for (const grant of granted) {
		lanes.claimed(grant, {count: 1, nextDue: null, warmedUp: null}, at(0));
	}
	return granted;
}

/** Claims until the room is taken. */
function claimAll(lanes: Lanes, siteOf?: (destination: string) => string): Grant[] {
	const claimed: Grant[] = [];
	for (let granted = claims(lanes, siteOf); granted.length > 0; granted = claims(lanes, siteOf)) {
		claimed.push(...granted);
	}
	return claimed;
}

for (const rank of ['fresh', 'backlog'] as const) {
	test(`10,000 silent sites of one workspace do not stand before another one's new site: ${rank}`, t => {
		const lanes = lanesOf({maxUnproven: 48});
		const add = (destination: string, workspaceId: string) =>
			rank === 'fresh'
				? lanes.arrived({destination, workspaceId}, at(0))
				: lanes.due({destination, workspaceId}, 0, at(0));
		for (let n = 0; n < 10_000; n++) {
			add(`dead${n}.test`, 'ws_big');
		}
		const running = claimAll(lanes);
		add('new.test', 'ws_small');
		t.deepEqual(claimAll(lanes), [], 'all room is taken');
		const next: string[] = [];
		for (let ends = 0; ends < 5; ends++) {
			lanes.done(running.shift() as Grant, silent, at(0));
			next.push(...claimAll(lanes).map(grant => grant.lane.destination));
		}
		t.true(next.slice(0, 2).includes('new.test'), next.join(' '));
		t.true(next.length >= 5, 'and the other one goes on');
	});
}

test('a workspace that shares a site with a large one gets its turn there as at one of its own', t => {
	const lanes = lanesOf({maxUnproven: 48});
	for (let n = 0; n < 1000; n++) {
		lanes.arrived({destination: `dead${n}.test`, workspaceId: 'ws_big'}, at(0));
	}
	const siteOf = (name: string) => (name.startsWith('dead') ? name : 'shared.test');
	const running = claimAll(lanes, siteOf);
	lanes.arrived({destination: 'a.test', workspaceId: 'ws_big'}, at(0));
	lanes.arrived({destination: 'b.test', workspaceId: 'ws_small'}, at(0));
	t.deepEqual(claimAll(lanes, siteOf), [], 'all room is taken');
	const next: string[] = [];
	for (let ends = 0; ends < 3; ends++) {
		lanes.done(running.shift() as Grant, silent, at(0));
		next.push(...claimAll(lanes, siteOf).map(grant => grant.lane.destination));
	}
	t.true(next.slice(0, 2).includes('b.test'), next.join(' '));
});
