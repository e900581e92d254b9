import test from 'ava';
import type {Attempt, AttemptResult, Outcome} from '../../../src/mail/outcome.ts';
import {InfrastructureAlarm} from '../../../src/outcome/infrastructure-alarm.ts';

const minute = 60_000;
const at = '2026-06-09T10:15:30.123Z';
const reply = {at, host: 'mx.a.example', ip: '192.0.2.1', tls: null, phase: 'rcpt', code: 250, enhanced: null} as const;
const last: Attempt = {...reply, reply: 'x', ms: 1, dialogue: null};

function result(outcome: Outcome, more: Partial<Attempt> = {}): AttemptResult {
	return {recipientId: 'rcp_1', outcome, attempts: [{...last, ...more}], sentAt: at, at};
}

const taken = result({kind: 'delivered'});
const refusal = (category: 'block' | 'policy' | 'auth' | 'greylist' | 'unknown_user', enhanced = '5.7.1') =>
	result({kind: 'bounced', type: 'transient', category, reason: 'x', suppresses: false}, {enhanced, code: 550});

function start() {
	const time = {now: 0};
	const alarm = new InfrastructureAlarm({monotonic: () => time.now});
	const tried = (result: AttemptResult, times: number) =>
		Array.from({length: times}, () => alarm.countAttempt(result)).at(-1);
	return {time, alarm, tried};
}

test('raises the alarm above one rejection in twenty, from five rejections', t => {
	const {alarm, tried} = start();
	t.is(tried(refusal('block'), 4), null, 'four of four');
	t.like(tried(refusal('block'), 1), {
		provider: 'a.example',
		attempts: 5,
		refused: 5,
		host: 'mx.a.example',
		reply: 'x',
	});
	tried(taken, 95);
	t.deepEqual(alarm.current(), [], 'five of a hundred');
	t.like(tried(refusal('auth', '4.7.26'), 1), {attempts: 101, refused: 6});
	t.like(alarm.current(), {length: 1, 0: {provider: 'a.example', attempts: 101, refused: 6, reply: 'x'}});
});

test('counts the last hour', t => {
	const {time, alarm, tried} = start();
	tried(refusal('block'), 5);
	time.now = 59 * minute;
	t.is(alarm.current().length, 1);
	time.now = 60 * minute;
	t.is(alarm.current().length, 0);
	t.is(tried(refusal('block'), 4), null);
	t.not(tried(refusal('block'), 1), null);
});

test('counts a policy rejection only with a security code, and never one about the recipient', t => {
	const {tried} = start();
	t.is(tried(refusal('policy', '5.2.1'), 20), null);
	t.is(tried(refusal('unknown_user', '5.1.1'), 20), null);
	t.is(tried(refusal('greylist', '4.7.1'), 20), null);
	t.is(tried(refusal('policy'), 3), null, 'three of 63');
	t.like(tried(refusal('policy'), 3), {attempts: 66, refused: 6});
});

test('counts per provider, without attempts that reached no mail server or the simulator', t => {
	const {alarm, tried} = start();
	const outcome = refusal('block').outcome;
	tried(result(outcome, {host: 'mx.b.example'}), 4);
	tried(result(outcome, {host: 'simulator.test'}), 9);
	tried(result(outcome, {host: null}), 9);
	t.is(alarm.countAttempt({...taken, outcome, attempts: []}), null);
	t.is(tried(refusal('block'), 4), null);
	t.deepEqual(alarm.current(), []);
	t.not(tried(result(outcome, {host: 'mx2.b.example'}), 1), null);
	t.is(alarm.current()[0]?.provider, 'b.example');
});
