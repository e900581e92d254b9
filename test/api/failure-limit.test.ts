import test from 'ava';
import {createFailureLimit} from '../../src/api/rate-limit.ts';
import type {RateLimit} from '../../src/mail/api-key.ts';

function limitAt() {
	const time = {now: 0};
	const limit: {now: RateLimit | null} = {now: {requests: 120, windowMs: 60_000}};
	const fail = createFailureLimit({monotonic: () => time.now}, () => limit.now);
	const tries = (ip: string, count: number) =>
		Array.from({length: count}, () => fail(ip)).filter(one => one === null).length;
	return {time, limit, fail, tries};
}

test('allows 120 failures per client and minute, then none until the minute ends', t => {
	const {time, tries, fail} = limitAt();
	t.is(tries('192.0.2.1', 140), 120);
	t.is(tries('192.0.2.2', 1), 1);
	time.now = 59_999;
	t.is(fail('192.0.2.1'), 1);
	time.now = 60_000;
	t.is(tries('192.0.2.1', 140), 120);
	t.is(fail('192.0.2.1'), 60_000);
});

test('counts an IPv6 /64 network as one client and a mapped address as its IPv4 address', t => {
	const {tries} = limitAt();
	t.is(tries('2001:db8::1', 70) + tries('2001:db8:0:0:ffff::2', 70), 120);
	t.is(tries('2001:db8:0:1::1', 1), 1);
	t.is(tries('192.0.2.1', 70) + tries('::ffff:192.0.2.1', 70), 120);
	t.is(tries('fe80::1%eth0', 1) + tries('', 1), 2);
});

test('counts everything that is not an address as one client', t => {
	const {tries} = limitAt();
	t.is(tries('unknown', 70) + tries('x'.repeat(10_000), 70), 120);
});

test('applies a changed or removed limit at once', t => {
	const {tries, limit} = limitAt();
	t.is(tries('192.0.2.1', 140), 120);
	limit.now = null;
	t.is(tries('192.0.2.1', 140), 140);
	limit.now = {requests: 200, windowMs: 60_000};
	t.is(tries('192.0.2.1', 100), 60);
});
