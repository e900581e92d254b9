import test from 'ava';
import {createForgedLimit} from '../../src/public/forged-limit.ts';

function limitAt() {
	const time = {now: 0};
	const mayTry = createForgedLimit({now: () => 0, monotonic: () => time.now});
	const tries = (ip: string, count: number) => Array.from({length: count}, () => mayTry(ip)).filter(Boolean).length;
	return {time, tries};
}

test('120 a minute and client, then none until the minute is over', t => {
	const {time, tries} = limitAt();
	t.is(tries('192.0.2.1', 140), 120);
	t.is(tries('192.0.2.2', 1), 1);
	time.now = 59_999;
	t.is(tries('192.0.2.1', 5), 0);
	time.now = 60_000;
	t.is(tries('192.0.2.1', 140), 120);
});

test('the addresses of one IPv6 network are one client, a mapped one is its IPv4 address', t => {
	const {tries} = limitAt();
	t.is(tries('2001:db8::1', 70) + tries('2001:db8:0:0:ffff::2', 70), 120);
	t.is(tries('2001:db8:0:1::1', 1), 1);
	t.is(tries('192.0.2.1', 70) + tries('::ffff:192.0.2.1', 70), 120);
	t.is(tries('fe80::1%eth0', 1) + tries('', 1), 2);
});
