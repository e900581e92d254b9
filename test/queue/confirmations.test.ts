import test from 'ava';
import {toConfirmations} from '../../src/deliver/find-hosts.ts';

const minute = 60_000;
const ended = Date.UTC(2026, 5, 9, 10, 0, 0);
const usual = {waits: [minute, 4 * 60 * minute], repeatLast: true};
const after = (category: string | null, waited: number, schedule = usual) =>
	toConfirmations({last_category: category, state_at: new Date(ended).toISOString()}, schedule, ended + waited);
const none = {wasNxdomain: false, hadNoAddress: false};

test('confirms "no such domain" after 15 minutes and "no address" after an hour', t => {
	t.deepEqual(after('unknown_domain', 15 * minute - 1), none);
	t.deepEqual(after('unknown_domain', 15 * minute), {...none, wasNxdomain: true});
	t.deepEqual(after('no_address', 60 * minute - 1), none);
	t.deepEqual(after('no_address', 60 * minute), {...none, hadNoAddress: true});
	t.deepEqual(after('dns_temp', 999 * minute), none);
	t.deepEqual(after(null, 999 * minute), none);
});

test('shortens the confirmation times for a shorter schedule', t => {
	const short = {waits: [100, 2000], repeatLast: true};
	t.deepEqual(after('unknown_domain', 1999, short), none);
	t.deepEqual(after('unknown_domain', 2000, short), {...none, wasNxdomain: true});
	t.deepEqual(after('no_address', 2000, short), {...none, hadNoAddress: true});
});
