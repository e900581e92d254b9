import test from 'ava';
import fc from 'fast-check';
import {retrySchedule} from '../../src/config/parsers.ts';
import {table} from '../../src/config/table.ts';
import {
	endOfLife,
	nextAttempt,
	noOwnRetry,
	type Retry,
	type RetrySchedule,
	resolveRetry,
} from '../../src/mail/retry.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const accepted = Date.UTC(2026, 5, 9, 10, 0, 0);

function scheduleOf(text: string): RetrySchedule {
	const parsed = retrySchedule(text, '/');
	if (!parsed.ok) {
		throw new Error(parsed.allowed);
	}
	return parsed.value;
}

const usual: Retry = {schedule: scheduleOf('1m,5m,10m,20m,40m,90m,3h,4h*'), lifetime: 4 * day};
const middle = () => 0.5;

test('the default schedule retries twice in the first minutes, then less and less often for four days', t => {
	t.is(table.retrySchedule.shownFallback, '`1m,5m,10m,20m,40m,90m,3h,4h*`');
	const waits: number[] = [];
	let now = accepted;
	for (let tries = 1; ; tries++) {
		const next = nextAttempt(usual, {acceptedAt: accepted, now, attempts: tries}, middle);
		if (next === null) {
			break;
		}
		waits.push((next - now) / minute);
		now = next;
	}
	t.deepEqual(waits.slice(0, 10), [1, 5, 10, 20, 40, 90, 180, 240, 240, 240]);
	t.is(now, accepted + 4 * day - minute, 'the last try is a minute before the end of the lifetime');
	t.is(waits.length, 30);
});

test('without *, gives up at the end of the list', t => {
	const retry = {schedule: scheduleOf('1m,5m'), lifetime: 4 * day};
	const next = (tries: number) => nextAttempt(retry, {acceptedAt: accepted, now: accepted, attempts: tries}, middle);
	t.deepEqual([next(1), next(2), next(3)], [accepted + minute, accepted + 5 * minute, null]);
});

test('varies a wait by at most a tenth and never exceeds the lifetime', t => {
	const tries = fc.integer({min: 1, max: 40});
	const property = fc.property(
		tries,
		fc.double({min: 0, max: 0.999, noNaN: true}),
		fc.nat(5 * day),
		(n, random, age) => {
			const now = accepted + age;
			const next = nextAttempt(usual, {acceptedAt: accepted, now, attempts: n}, () => random);
			const last = accepted + usual.lifetime - minute;
			if (now >= last) {
				return next === null;
			}
			const wait = usual.schedule.waits[n - 1] ?? 4 * hour;
			const latest = Math.min(now + wait * 1.1, last);
			const earliest = Math.min(now + wait * 0.9, last);
			return next !== null && next >= Math.floor(earliest) && next <= Math.ceil(latest);
		},
	);
	t.notThrows(() => fc.assert(property));
});

test('supports a lifetime of minutes, as for one-time passwords', t => {
	const retry = {...usual, lifetime: 30 * minute};
	const at = (minutes: number, tries: number) => {
		const next = nextAttempt(
			retry,
			{acceptedAt: accepted, now: accepted + minutes * minute, attempts: tries},
			middle,
		);
		return next === null ? null : (next - accepted) / minute;
	};
	t.deepEqual([at(0, 1), at(1, 2), at(6, 3), at(16, 4), at(29, 5)], [1, 6, 16, 29, null]);
});

test('a destination’s schedule replaces that of the settings, but its lifetime can only shorten it', t => {
	const own = {schedule: {waits: [minute], repeatLast: false}, lifetime: 10 * minute};
	t.deepEqual(resolveRetry(noOwnRetry, usual, null), usual);
	t.deepEqual(resolveRetry(noOwnRetry, usual, 60), {...usual, lifetime: minute});
	t.deepEqual(resolveRetry(own, usual, null), own);
	t.deepEqual(resolveRetry(own, usual, 60), {...own, lifetime: minute});
	t.deepEqual(resolveRetry(own, usual, 3600), own);
	t.deepEqual(resolveRetry({...own, lifetime: 99 * usual.lifetime}, usual, null), {...own, lifetime: usual.lifetime});
});

test('a lifetime of seconds reserves a tenth for the last attempt; a lifetime of zero allows one attempt', t => {
	const next = (lifetime: number) =>
		nextAttempt({...usual, lifetime}, {acceptedAt: accepted, now: accepted + 100, attempts: 1}, middle);
	t.deepEqual([next(20_000), next(0)], [accepted + 18_000, null]);
	t.deepEqual([endOfLife(accepted, 20_000), endOfLife(accepted, 0)], [accepted + 20_000, accepted + 1000]);
});

test('follows a stated wait without jitter, up to the longest wait of the schedule', t => {
	const wait = (retry: Retry, waitMs: number, tries = 1) =>
		(nextAttempt(retry, {acceptedAt: accepted, now: accepted, attempts: tries, waitMs}, middle) ?? 0) - accepted;
	t.is(wait(usual, 7 * minute), 7 * minute);
	t.is(wait(usual, 7 * minute, 5), 7 * minute);
	t.is(wait({...usual, schedule: scheduleOf('1s,2s*')}, hour), 2000);
});

test('a minimum wait grows with the schedule from the first attempt on', t => {
	const wait = (tries: number, retry = usual) => {
		const failed = {acceptedAt: accepted, now: accepted, attempts: tries, waitMs: 5 * minute, isLeast: true};
		return ((nextAttempt(retry, failed, middle) ?? 0) - accepted) / minute;
	};
	t.deepEqual([wait(1), wait(2), wait(3), wait(4), wait(6)], [5, 5, 10, 20, 90]);
	t.is(wait(1, {...usual, schedule: scheduleOf('1m*')}), 1);
});

test('ignores a short stated wait after the first few attempts', t => {
	const wait = (tries: number) =>
		((nextAttempt(usual, {acceptedAt: accepted, now: accepted, attempts: tries, waitMs: minute}, middle) ?? 0) -
			accepted) /
		minute;
	t.deepEqual([wait(1), wait(5), wait(6), wait(7), wait(20)], [1, 1, 90, 180, 240]);
});
