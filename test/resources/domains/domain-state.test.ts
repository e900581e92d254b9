import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import type {DueDomain} from '../../../src/resources/domains/store.ts';
import {nextCheck, nextStatus, type ProofState} from '../../../src/resources/domains/verify-domain.ts';

const start = Date.parse('2026-06-09T10:00:00.000Z');
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const at = (ms: number) => storeTime(start + ms);

function domain(changes: Partial<DueDomain> = {}): DueDomain {
	return {
		id: 'dom_1',
		workspace_id: 'ws_1',
		name: 'shop.example',
		ownership_token: 'abc',
		return_path_domain: null,
		return_path_at: null,
		link_host: null,
		links_ok_at: null,
		state: 'pending',
		state_at: at(0),
		verified_at: null,
		first_verified_at: null,
		checked_at: null,
		failures: 0,
		created_at: at(0),
		pending_at: null,
		...changes,
	};
}

/** The states after checks, each given with its time since the start. */
function walk(from: DueDomain, ...checks: ReadonlyArray<readonly [ms: number, sight: ProofState]>): string[] {
	let now = from;
	return checks.map(([ms, sight]) => {
		now = {...now, ...nextStatus(now, sight, at(ms))};
		return now.verified_at === null ? now.state : `${now.state}, verified`;
	});
}

const verified = domain({state: 'verified', verified_at: at(-day)});

test('a pending domain is verified when the record appears, and fails after 72 hours without it', t => {
	t.deepEqual(walk(domain(), [0, 'absent'], [minute, 'absent'], [hour, 'shown']), [
		'pending',
		'pending',
		'verified, verified',
	]);
	t.deepEqual(
		walk(
			domain(),
			[0, 'absent'],
			[hour, 'absent'],
			[71 * hour, 'absent'],
			[72 * hour, 'absent'],
			[73 * hour, 'shown'],
		),
		[...['pending', 'pending', 'pending', 'failed'], 'verified, verified'],
	);
});

test('a verified domain fails only after 3 failed checks over 72 hours', t => {
	const degraded = 'degraded, verified';
	t.deepEqual(
		walk(
			verified,
			[0, 'absent'],
			[hour, 'absent'],
			[2 * hour, 'absent'],
			[71 * hour, 'absent'],
			[72 * hour, 'absent'],
		),
		[...[degraded, degraded, degraded, degraded], 'failed'],
	);
	t.deepEqual(walk(verified, [0, 'absent'], [72 * hour, 'absent'], [73 * hour, 'absent']), [
		degraded,
		degraded,
		'failed',
	]);
	t.deepEqual(walk(verified, [0, 'absent'], [71 * hour, 'shown'], [72 * hour, 'absent'], [143 * hour, 'absent']), [
		...[degraded, 'verified, verified', degraded, degraded],
	]);
});

test('a DNS failure does not change the state', t => {
	const unknowns = Array.from({length: 10}, (_, n) => [n * day, 'unknown'] as const);
	t.deepEqual(new Set(walk(domain(), ...unknowns)), new Set(['pending']));
	t.deepEqual(new Set(walk(verified, ...unknowns)), new Set(['verified, verified']));
	t.deepEqual(walk(verified, [0, 'absent'], ...unknowns).at(-1), 'degraded, verified');
});

/** The intervals between checks of a domain whose state does not change, in minutes. */
function pauses(from: DueDomain, count: number): number[] {
	let last = start;
	return Array.from({length: count}, () => {
		const next = nextCheck({...from, checked_at: storeTime(last)}, last);
		const pause = (next - last) / minute;
		last = next;
		return pause;
	});
}

const times = (count: number, pause: number) => new Array<number>(count).fill(pause);

test('checks a pending domain every minute at first, then every 10 minutes, hourly and finally daily', t => {
	t.is(nextCheck(domain(), start), 0);
	const eager = [...times(10, 1), ...times(12, 10), ...times(70, 60), ...times(3, 1440)];
	t.deepEqual(pauses(domain(), eager.length), eager);
	t.deepEqual(pauses(domain({state: 'degraded', verified_at: at(0)}), eager.length), eager);
});

test('checks a complete domain daily, but more often while a return path or a new key is expected', t => {
	const whole = {...verified, return_path_at: at(0)};
	t.deepEqual(pauses(whole, 3), times(3, 1440));
	t.deepEqual(pauses(domain({state: 'failed'}), 3), times(3, 1440));
	t.deepEqual(pauses(verified, 11), [...times(10, 1), 10]);
	t.deepEqual(pauses({...whole, state_at: at(-9 * day), pending_at: at(0)}, 11), [...times(10, 1), 10]);
	t.deepEqual(pauses({...verified, state_at: at(-9 * day)}, 2), times(2, 1440));
});

test('is due after the clock was set back', t => {
	t.is(nextCheck(domain({checked_at: at(day)}), start), start);
});
