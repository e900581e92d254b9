import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {afterAttempt, webhookBody} from '../../src/mail/webhook.ts';

const minute = 60_000;
const day = 86_400_000;
const at = Date.UTC(2026, 5, 9, 10);

type Long = NonNullable<Parameters<typeof afterAttempt>[4]>;

/** The attempts of a delivery that always fails: the time of each, relative to the first. */
function failures(backoffMs: number, more: Partial<Long> = {}) {
	const times: number[] = [];
	const long = {firstAt: at, failingSince: storeTime(at), status: 503, retryAfterMs: 0, ...more};
	for (let now = at; ; ) {
		const after = afterAttempt(times.length, false, now, backoffMs, long);
		times.push(now - at);
		if (after.nextAttemptAt === null) {
			return {times, after};
		}
		now = after.nextAttemptAt;
	}
}

test('without long retry, makes five attempts, a backoff apart', t => {
	for (let attempts = 0; attempts < 4; attempts++) {
		t.deepEqual(afterAttempt(attempts, false, at, minute), {
			state: 'failed',
			attempts: attempts + 1,
			nextAttemptAt: at + minute,
		});
	}
	t.deepEqual(afterAttempt(4, false, at, minute), {state: 'exhausted', attempts: 5, nextAttemptAt: null});
});

test('long retry continues with growing waits until three days after the first attempt', t => {
	const {times, after} = failures(minute);
	const minutes = times.map(time => time / minute);
	t.deepEqual(minutes.slice(0, 9), [0, 1, 2, 3, 4, 6, 10, 18, 34]);
	const waits = minutes.slice(1).map((time, index) => time - (minutes[index] as number));
	t.is(Math.max(...waits), 360);
	t.is(times.at(-1), 3 * day);
	t.like(after, {state: 'exhausted', attempts: times.length, disables: 'failing'});
	t.is(failures(10).times.at(-1), 43_200, 'a short backoff shortens all of it');
	t.is(failures(10 * minute).times.at(-1), 3 * day, 'a long one does not lengthen it');
});

test('Retry-After extends a wait, but not the three days', t => {
	const long = {firstAt: at, failingSince: null, status: 503};
	const next = (attempts: number, retryAfterMs: number) =>
		(afterAttempt(attempts, false, at, minute, {...long, retryAfterMs}).nextAttemptAt as number) - at;
	t.deepEqual([next(0, 5 * minute), next(0, 1000), next(9, minute)], [5 * minute, minute, 64 * minute]);
	t.is(next(0, 30 * day), 3 * day);
	t.is(failures(minute, {retryAfterMs: day}).times.at(-1), 3 * day + minute, 'five attempts are made in any case');
});

test('410 stops at once; a failure of only this delivery does not disable the endpoint', t => {
	const gone = {firstAt: at, failingSince: null, status: 410, retryAfterMs: 0};
	t.deepEqual(afterAttempt(0, false, at, minute, gone), {
		...{state: 'exhausted', attempts: 1, nextAttemptAt: null, disables: 'gone'},
	});
	for (const failingSince of [null, storeTime(at + day)]) {
		t.is(failures(minute, {failingSince}).after.disables, undefined);
	}
	t.deepEqual(afterAttempt(0, true, at, minute, {...gone, status: 200}), {
		...{state: 'delivered', attempts: 1, nextAttemptAt: null},
	});
});

test('the body of an event without a recipient has its detail in both formats', t => {
	const detail = {domain: 'shop.example', state: 'verified', verified: true};
	const event = {
		...{
			id: 'evt_1',
			type: 'domain_changed' as const,
			workspaceId: 'ws_1',
			messageId: null,
			recipient: null,
			detail,
		},
		occurredAt: '2026-06-09T10:15:30.987Z',
	} as const;
	const usual = {
		...{type: 'domain_changed', message_id: null, recipient: null},
		...{occurred_at: '2026-06-09T10:15:30+00:00', metadata: {}},
	};
	t.is(webhookBody(event, undefined, 'default'), JSON.stringify({...usual, detail}));
	t.is(
		webhookBody(event, undefined, 'full'),
		JSON.stringify({
			...usual,
			...{event_id: 'evt_1', workspace: 'ws_1', subject: null, template_id: null, tags: [], role: null, detail},
		}),
	);
});
