import test from 'ava';
import type {Pace} from '../../../src/mail/route.ts';
import {
	connectionsOf,
	isProbing,
	mailsAllowed,
	newSite,
	noteAttempt,
	opensAt,
	restoredSite,
	type SiteEnd,
	type SiteState,
	savedSite,
	setPace,
	spend,
} from '../../../src/queue/pace/site-state.ts';
import {defaultPace} from '../../helpers/routes.ts';

const minute = 60_000;
const longest = 240 * minute;
const paceOf = (more: Partial<Pace> = {}): Pace => ({...defaultPace, startConnections: 2, connections: 10, ...more});

const end = (kind: SiteEnd['kind'], ...replies: string[]): SiteEnd => ({
	kind,
	hasReplied: kind !== 'failed',
	replies,
	reason: replies[0] ?? 'connect ETIMEDOUT',
});

function times(count: number, site: SiteState, one: SiteEnd, now = 0) {
	return Array.from({length: count}, () => noteAttempt(site, one, now, longest)).flat();
}

test('starts with few connections and adds one per window of successes, up to the limit', t => {
	const site = newSite(paceOf({connections: 4}));
	t.is(connectionsOf(site, 0), 2);
	t.deepEqual(times(3, site, end('answered')), ['grew']);
	t.is(connectionsOf(site, 0), 3);
	t.deepEqual(times(4, site, end('answered')), ['grew']);
	times(100, site, end('answered'));
	t.is(connectionsOf(site, 0), 4);
});

test('halves the connections once per failure, however many attempts were in progress', t => {
	const site = newSite(paceOf({startConnections: 8}));
	t.deepEqual(times(8, site, end('throttled', '421 too busy')), ['halved']);
	t.is(connectionsOf(site, 0), 4);
	t.deepEqual(times(4, site, end('throttled', '421 too busy')), ['halved']);
	t.is(connectionsOf(site, 0), 2);
	times(50, site, end('throttled', '421 too busy'));
	t.is(connectionsOf(site, 0), 1, 'never none');
});

test('suspends for longer with each failure in a row, up to an hour, and probes with one recipient', t => {
	const site = newSite(paceOf({failures: 3}));
	t.deepEqual(times(3, site, end('failed')), ['halved', 'backed_off']);
	t.deepEqual(times(5, site, end('failed')), [], 'what was under way says nothing new');
	let now = 0;
	const waits: number[] = [];
	for (let step = 0; step < 8; step++) {
		t.is(connectionsOf(site, now), 0);
		const until = opensAt(site, now);
		waits.push((until - now) / minute);
		now = until;
		t.true(isProbing(site, now));
		t.is(connectionsOf(site, now), 1);
		t.deepEqual(noteAttempt(site, end('failed'), now, longest), ['backed_off']);
	}
	t.deepEqual(waits, [1, 2, 5, 15, 30, 60, 60, 60]);
	now = opensAt(site, now);
	t.deepEqual(noteAttempt(site, end('answered'), now, longest), ['resumed']);
	t.is(connectionsOf(site, now), 2);
	t.is(opensAt(site, now), now);
});

test('restarts the count of failures after a success', t => {
	const site = newSite(paceOf({failures: 3}));
	for (let round = 0; round < 10; round++) {
		times(2, site, end('failed'));
		times(1, site, end('answered'));
	}
	t.is(site.backoff, null);
});

test('never waits longer than the longest wait of the schedule', t => {
	const site = newSite(paceOf({failures: 1}));
	noteAttempt(site, end('failed'), 0, 2000);
	t.is(opensAt(site, 0), 2000);
	const slow = newSite(paceOf());
	noteAttempt(slow, end('throttled', '421 4.7.0 temporarily deferred due to user complaints'), 0, 2000);
	t.is(slow.slow?.until, 2000);
});

test('stops a relay at its first rejection of us, and reports the start and the end once', t => {
	const site = newSite(paceOf());
	t.deepEqual(times(3, site, end('locked_out', '535 5.7.8 bad password')), ['backed_off', 'route_stopped']);
	t.is(site.backoff?.waitsFor, 'route');
	let now = opensAt(site, 0);
	t.deepEqual(noteAttempt(site, end('locked_out', '535'), now, longest), ['backed_off']);
	now = opensAt(site, now);
	t.is(now, 3 * minute);
	t.deepEqual(noteAttempt(site, end('answered'), now, longest), ['resumed', 'route_resumed']);
});

test('slows to one connection and a message a minute for 90 minutes on replies about our reputation', t => {
	for (const reply of [
		'421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints - 4.16.55.1',
		'421 4.7.28 Our system has detected an unusual rate; rate limited due to IP reputation',
		'421 4.7.0 deferred due to the very low reputation of the IP',
		'450 4.7.1 temporarily deferred due to poor reputation of your IP',
	]) {
		const site = newSite(paceOf({startConnections: 8}));
		t.true(noteAttempt(site, end('throttled', reply), 0, longest).includes('slowed'), reply);
		t.is(connectionsOf(site, 0), 1);
		t.is(mailsAllowed(site, 0), 1);
		spend(site, 1, 0);
		t.is(opensAt(site, 0), minute);
		t.is(connectionsOf(site, 90 * minute), 4);
		t.is(mailsAllowed(site, 90 * minute), Number.POSITIVE_INFINITY);
	}
	const site = newSite(paceOf());
	noteAttempt(site, end('answered', '550 5.7.1 rejected due to content'), 0, longest);
	t.is(site.slow, null);
});

test('shortens sessions for a mail server that limits messages per connection', t => {
	const site = newSite(paceOf({mailsPerSession: 50}));
	noteAttempt(site, end('throttled', '421 4.7.0 too many messages on this connection'), 0, longest);
	t.is(site.mailsPerSession, 25);
	noteAttempt(site, end('throttled', '452 4.5.3 Max 10 messages per connection'), 0, longest);
	t.is(site.mailsPerSession, 10);
	noteAttempt(site, end('throttled', '421 maximum number of messages per session is 30'), 0, longest);
	t.true(site.mailsPerSession <= 10, 'never more again');
	for (let n = 0; n < 10; n++) {
		noteAttempt(site, end('throttled', '421 Too many messages in one session'), 0, longest);
	}
	t.is(site.mailsPerSession, 1);
});

test('applies the rules of a destination before the general ones', t => {
	const reactions: Pace['reactions'] = [
		{text: /TS04/, reaction: {kind: 'suspend', forMs: 120 * minute}},
		{text: /TS03/, reaction: {kind: 'slow', perMinute: 10, connections: 2, forMs: 30 * minute}},
		{text: /per connection/, reaction: {kind: 'mails_per_session', mails: 7}},
	];
	const site = newSite(paceOf({reactions, startConnections: 8}));
	noteAttempt(site, end('throttled', '421 4.7.0 [TS03] deferred due to user complaints'), 0, longest);
	t.deepEqual([site.slow?.perMinute, connectionsOf(site, 0)], [10, 2]);
	noteAttempt(site, end('throttled', '451 max 20 messages per connection'), 0, longest);
	t.is(site.mailsPerSession, 7);
	t.true(noteAttempt(site, end('throttled', '553 [TS04]'), 0, longest).includes('backed_off'));
	t.is(opensAt(site, 0), 120 * minute);
	t.deepEqual(times(3, site, end('answered')), [], 'what was under way does not end it');
	t.is(connectionsOf(site, 0), 0);
	t.deepEqual(times(1, site, end('answered'), 120 * minute), ['resumed']);
});

test('suspends a provider for two hours after it blocks our address, with advice', t => {
	const blocked: SiteEnd = {...end('answered', '450 later', '550 IP is blocked'), reason: '', isBlock: true};
	const site = newSite(paceOf());
	t.deepEqual(noteAttempt(site, blocked, 0, longest), ['backed_off']);
	t.like(site.backoff, {until: 120 * minute, reason: '550 IP is blocked', waitsFor: 'suspension'});
	t.regex(site.backoff?.advice ?? '', /mailctl doctor/);

	const saved = savedSite(site, {now: 0, monotonic: 0});
	const later = {now: minute, monotonic: 7};
	const restored = saved && restoredSite(paceOf(), saved, later, longest);
	t.is(restored?.backoff?.advice, site.backoff?.advice);

	// The probe after that fails, which is no longer a block.
	noteAttempt(site, end('failed'), 120 * minute, longest);
	t.is(site.backoff?.advice, null);
});

test('prefers the rule of an entry to the general handling of blocks', t => {
	const advice = 'write to postmaster@isp.test';
	const reactions = [{text: /S31/, reaction: {kind: 'suspend', forMs: minute, advice}}] as const;
	const site = newSite(paceOf({reactions}));
	noteAttempt(site, {...end('answered', '550 blocked (S3150)'), isBlock: true}, 0, longest);
	t.like(site.backoff, {until: minute, advice});
});

test('applies new limits at once and keeps what was learned', t => {
	const site = newSite(paceOf({startConnections: 8, perMinute: 60}));
	noteAttempt(site, end('throttled', '421 too many messages per connection'), 0, longest);
	setPace(site, paceOf({connections: 3, mailsPerSession: 100}), 0);
	t.deepEqual(
		[connectionsOf(site, 0), site.mailsPerSession, mailsAllowed(site, 0)],
		[3, 25, Number.POSITIVE_INFINITY],
	);
});

test('does not speed up under new limits while slowed down by a reply', t => {
	const site = newSite(paceOf({perMinute: 2}));
	site.slow = {until: 90 * minute, perMinute: 600, connections: 1, reason: ''};
	setPace(site, paceOf({perMinute: 1}), 0);
	t.is(site.bucket?.perMinute, 1);
});

test('restores the state of a provider after a restart, on other clocks', t => {
	const pace = paceOf({failures: 1, startConnections: 8});
	t.is(savedSite(newSite(paceOf({startConnections: 10})), {now: 0, monotonic: 0}), null);
	const site = newSite(pace);
	noteAttempt(site, end('throttled', '421 deferred due to user complaints'), 500, longest);
	noteAttempt(site, end('failed'), 500, longest);
	const saved = savedSite(site, {now: 1_000_000, monotonic: 500});
	t.like(saved, {suspendedUntil: 1_000_000 + minute, slowUntil: 1_000_000 + 90 * minute, step: 1, window: 1});
	t.truthy(saved);
	const later = {now: 1_000_000 + minute / 2, monotonic: 7};
	const again = restoredSite(pace, saved as NonNullable<typeof saved>, later, longest);
	t.is(opensAt(again, 7), 7 + minute / 2);
	t.is(again.isResponding, false);
	const reason = '421 deferred due to user complaints';
	t.deepEqual(again.slow, {until: 7 + 89.5 * minute, perMinute: 1, connections: 1, reason});
	t.deepEqual(noteAttempt(again, end('failed'), 7 + minute / 2, longest), ['backed_off']);
	t.is(again.backoff?.step, 2);
	const back = restoredSite(pace, saved as NonNullable<typeof saved>, {now: -(10 ** 9), monotonic: 0}, longest);
	t.is(opensAt(back, 0), longest, 'a clock that was set back keeps nobody waiting');
});
