import test from 'ava';
import {FailedLogIns} from '../../../src/resources/users/failed-log-ins.ts';
import {heldBytes} from '../../helpers/held-bytes.ts';
import {testTools} from '../../helpers/tools.ts';

const minute = 60_000;

test('ten failures lock an account for their network, more for all networks', t => {
	const {clock, advance} = testTools();
	const attempts = new FailedLogIns(clock);
	const begin = (times: number, network: string, account: string) =>
		Array.from({length: times}, () => attempts.begin({address: `${network}.1`, account})).at(-1);
	t.is(begin(10, '198.51.100', 'ann'), null);
	advance(minute);
	t.is(begin(1, '198.51.100', 'ann'), 14 * 60);
	t.is(begin(1, '203.0.113', 'ann'), null, 'she is in another network');
	t.is(begin(10, '198.51.100', 'bob'), null, 'he shares the network');
	for (let n = 0; n < 9; n++) {
		t.is(begin(10, `192.0.${n}`, 'ann'), n < 8 ? null : 14 * 60);
	}
	t.is(begin(1, '203.0.113', 'ann'), 14 * 60, '100 came from everywhere');
	advance(14 * minute);
	t.is(begin(1, '203.0.113', 'ann'), null, 'its quarter of an hour is over');
});

test('thirty failures lock a network, for every account', t => {
	const attempts = new FailedLogIns(testTools().clock);
	for (let n = 0; n < 30; n++) {
		t.is(attempts.begin({address: `2001:db8:1:2::${n}`, account: n % 2 ? `user${n}` : null}), null);
	}
	t.is(attempts.begin({address: '2001:db8:1:2:ffff::1', account: 'another'}), 15 * 60, 'an IPv6 /64 is one network');
	t.is(attempts.begin({address: '2001:db8:1:2:ffff::1', account: null}), 15 * 60);
	t.is(attempts.begin({address: '2001:db8:1:3::1', account: 'another'}), null);
});

test('ten wrong codes lock an account for all networks', t => {
	const attempts = new FailedLogIns(testTools().clock);
	const tryCode = (n: number) => attempts.begin({address: `192.0.2.${n}`, account: 'ann', isCode: true});
	for (let n = 0; n < 10; n++) {
		t.is(tryCode(n), null);
	}
	t.is(tryCode(11), 15 * 60);
});

test('does not count successful logins as failures', t => {
	const attempts = new FailedLogIns(testTools().clock);
	for (let n = 0; n < 200; n++) {
		t.is(attempts.begin({address: '192.0.2.1', account: 'ann'}), null);
		attempts.succeeded({address: '192.0.2.1', account: 'ann'});
	}
});

test('attempts from many networks do not evict the failures of an account', t => {
	const attempts = new FailedLogIns(testTools().clock);
	for (let n = 0; n < 100; n++) {
		attempts.begin({address: `2001:db8:0:${n.toString(16)}::1`, account: 'ann'});
	}
	for (let n = 0; n < 20_000; n++) {
		attempts.begin({address: `2001:db8:1:${n.toString(16)}::1`, account: null});
	}
	t.is(attempts.begin({address: '192.0.2.1', account: 'ann'}), 15 * 60);
});

test('a failure does not keep the form of the request in memory', t => {
	const attempts = new FailedLogIns(testTools().clock);
	const begin = (n: number) => {
		const form = new URLSearchParams(`email=a-user-of-ours-${n}@staff.example&more=${'x'.repeat(1 << 20)}`);
		return attempts.begin({address: `2001:db8:0:${n.toString(16)}::1`, account: form.get('email')});
	};
	begin(0);
	const before = heldBytes();
	for (let n = 1; n <= 100; n++) {
		t.is(begin(n), null);
	}
	t.true(heldBytes() - before < 20 << 20);
});
