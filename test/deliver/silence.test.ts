import test from 'ava';
import {startLab, testTimeouts} from '../helpers/delivery-lab.ts';
import type {Answer} from '../helpers/fake-mx.ts';
import {holdMail} from '../helpers/held-mail.ts';
import {waitFor} from '../helpers/wait.ts';

const never: Answer = {do: 'never'};
/** Of two sessions, one may be silent. */
const limits = {maxSessions: 2, silentAfterMs: 20};

test('a silent session that is given up defers its message and counts against the provider', async t => {
	const silent: string[] = [];
	const lab = await startLab(t, [{rcpt: never}], {...limits, silent: site => silent.push(site)});
	const results = [lab.deliver(), lab.deliver()];
	const {outcome, attempts} = await Promise.race(results);
	t.deepEqual(outcome, {
		kind: 'deferred',
		category: 'network',
		reason: 'the server did not reply, and the session was needed for other messages',
	});
	t.like(attempts[0], {isSilent: true, code: null});
	t.deepEqual([...new Set(silent)], ['example.test']);
	for (const connection of lab.hosts[0]?.connections ?? []) {
		connection.drop();
	}
	await Promise.all(results);
});

test('silence ends with the connection: data sent to the next mail server is not given up', async t => {
	const held = holdMail();
	const lab = await startLab(t, [{greeting: never}, {dot: held.dot}, {rcpt: never}], {
		...limits,
		timeouts: {...testTimeouts, greeting: 100, rcpt: 100},
		zone: {'other.test': {mx: [[10, 'mx2.example.test']]}},
	});
	const first = lab.deliver();
	await waitFor('data', () => held.waiting.length > 0);
	const second = await lab.deliver({destination: 'other.test'});
	t.regex(second.attempts[0]?.reply ?? '', /took longer than 100 ms/);
	held.answer('250 2.0.0 Ok');
	t.is((await first).outcome.kind, 'delivered');
});
