import test from 'ava';
import type {SavedSite} from '../../../src/mail/saved-site.ts';
import {
	connectionsOf,
	hasPart,
	isBackingOff,
	mailsAllowed,
	newSite,
	noteAttempt,
	opensAt,
	type SiteEnd,
	type SiteShare,
	savedSite,
	takeOver,
} from '../../../src/queue/pace/site-state.ts';
import {defaultPace} from '../../helpers/routes.ts';

const minute = 60_000;
const longest = 240 * minute;
const pace = {...defaultPace, connections: 12, startConnections: 12, failures: 1, perMinute: 120};
const at = (now: number) => ({now, monotonic: now});

/** A third of everything, rounded down. */
const third: SiteShare = {
	connections: total => Math.floor(total / 3),
	perMinute: total => Math.floor(total / 3),
};
const answered: SiteEnd = {kind: 'answered', hasReplied: true, replies: [], reason: ''};
const failed: SiteEnd = {kind: 'failed', hasReplied: false, replies: [], reason: 'connect ETIMEDOUT'};

/** The stored state of a provider after this happened. */
function savedAfter(end: SiteEnd): SavedSite | null {
	const site = newSite(pace);
	noteAttempt(site, end, 0, longest);
	return savedSite(site, at(0));
}

test('limits a node to its share of connections and rate', t => {
	const site = newSite(pace, third);
	t.is(connectionsOf(site, 0), 4);
	t.is(site.bucket?.perMinute, 40);
	t.false(hasPart(newSite({...pace, connections: 2}, third), 0));
	t.false(hasPart(newSite({...pace, perMinute: 2}, third), 0));
});

test('halves the window from the node’s share, and grows it with the share once they are equal', t => {
	let part = 4;
	const site = newSite(pace, {...third, connections: () => part});
	noteAttempt(site, {...answered, kind: 'throttled'}, 0, longest);
	t.is(connectionsOf(site, 0), 2);
	part = 6;
	t.is(connectionsOf(site, 0), 2, 'it knows no more of the site');
	for (let mail = 0; mail < 30; mail++) {
		noteAttempt(site, answered, 0, longest);
	}
	t.is(connectionsOf(site, 0), 6);
	part = 12;
	t.is(connectionsOf(site, 0), 12);
	t.is(savedSite(site, at(0)), null);
});

test('keeps the window while the node’s share is zero', t => {
	let part = 4;
	const site = newSite(pace, {...third, connections: () => part});
	part = 0;
	t.is(connectionsOf(site, 0), 0);
	noteAttempt(site, answered, 0, longest);
	part = 4;
	t.is(connectionsOf(site, 0), 4);
});

test('applies a suspension stored by another node, and keeps the longer of two', t => {
	const site = newSite(pace, third);
	const after = savedAfter(failed);
	takeOver(site, {before: null, after}, at(1000), longest);
	t.true(isBackingOff(site, 1000));
	t.is(opensAt(site, 1000), minute);
	const longer = {...(after as SavedSite), suspendedUntil: 5 * minute};
	takeOver(site, {before: after, after: longer}, at(2000), longest);
	t.is(opensAt(site, 2000), 5 * minute);
	takeOver(site, {before: longer, after}, at(3000), longest);
	t.is(opensAt(site, 3000), 5 * minute);
	takeOver(site, {before: longer, after: longer}, at(4000), minute);
	t.is(opensAt(site, 4000), 5 * minute, 'what was known before is no news');
});

test('probes from one node, and ends the suspension on others once it is gone from the store', t => {
	const after = savedAfter(failed);
	const [prober, other] = [newSite(pace, {...third, connections: total => total}), newSite(pace, third)];
	for (const site of [prober, other]) {
		takeOver(site, {before: null, after}, at(0), longest);
	}
	t.deepEqual([connectionsOf(prober, minute), connectionsOf(other, minute)], [1, 0]);
	takeOver(other, {before: after, after}, at(minute), longest);
	t.is(connectionsOf(other, minute), 0, 'nobody was answered yet');
	takeOver(other, {before: after, after: null}, at(minute), longest);
	t.is(connectionsOf(other, minute), 4);
	takeOver(prober, {before: after, after: null}, at(minute), longest);
	t.is(connectionsOf(prober, minute), 1, 'its own probe says so');
});

test('keeps a suspension that has not been stored yet', t => {
	const site = newSite(pace, third);
	noteAttempt(site, failed, 0, longest);
	takeOver(site, {before: null, after: null}, at(1000), longest);
	t.true(isBackingOff(site, 1000));
});

test('applies slowdowns and shorter sessions stored by another node, until the slowdown ends', t => {
	const site = newSite(pace, third);
	const saved = savedAfter({...answered, replies: ['421 4.7.0 deferred due to user complaints']}) as SavedSite;
	takeOver(site, {before: null, after: {...saved, mailsPerSession: 5}}, at(0), longest);
	t.is(site.mailsPerSession, 5);
	t.is(mailsAllowed(site, 0), 0, 'one mail per minute is another node’s');
	t.false(hasPart(site, 0));
	t.is(opensAt(site, 0), 90 * minute);
	t.true(hasPart(site, 90 * minute));
});
