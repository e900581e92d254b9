import test from 'ava';
import {createAttempts} from '../../src/users/attempts.ts';
import {testTools} from '../helpers/tools.ts';

const minute = 60_000;

test('ten failures of an address or of an account, then both wait', t => {
	const {clock, advance} = testTools();
	const attempts = createAttempts(clock);
	for (let n = 0; n < 10; n++) {
		t.is(attempts.begin('192.0.2.1', `user${n}`), null);
	}
	advance(minute);
	t.is(attempts.begin('192.0.2.1', 'another'), 14 * 60);
	t.is(attempts.begin('192.0.2.2', 'another'), null, 'another address may');

	for (let n = 0; n < 10; n++) {
		t.is(attempts.begin(`198.51.100.${n}`, 'ann'), null);
	}
	t.is(attempts.begin('203.0.113.1', 'ann'), 15 * 60);
	t.is(attempts.begin('203.0.113.1', 'bob'), null);
	advance(14 * minute);
	t.is(attempts.begin('192.0.2.1', 'another'), null, 'its quarter of an hour is over');
	t.is(attempts.begin('203.0.113.1', 'ann'), 60);
});

test('an IPv6 /64 is one address', t => {
	const attempts = createAttempts(testTools().clock);
	for (let n = 0; n < 10; n++) {
		attempts.begin(`2001:db8:1:2::${n}`, `user${n}`);
	}
	t.is(attempts.begin('2001:db8:1:2:ffff::1', 'another'), 15 * 60);
	t.is(attempts.begin('2001:db8:1:3::1', 'another'), null);
});

test('what succeeded is no failure', t => {
	const attempts = createAttempts(testTools().clock);
	for (let n = 0; n < 30; n++) {
		t.is(attempts.begin('192.0.2.1', 'ann'), null);
		attempts.succeeded('192.0.2.1', 'ann');
	}
});
