import test from 'ava';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';

const lifetimeMs = 5000;

test('a workspace with a lifetime of seconds: given up as expired, transient, nothing is suppressed', async t => {
	const {program, host} = await startMailHosts(
		t,
		{'mx.a.example': {rcpt: '450 4.2.0 later'}},
		{},
		{MAILCTL_RETRY_SCHEDULE: '500ms*'},
	);
	const daemon = await program.serve();
	await program.cliBytes('workspace', 'update', 'default', '--queue-lifetime', `${lifetimeMs}ms`);
	const {send, until, show} = await clientOf(program, daemon);
	const id = await send('user@a.example');
	await until(id, 'bounced');

	const {message, events, recipients} = await show(id);
	t.like(events.at(-1)?.detail, {type: 'transient', category: 'expired', enhanced: '4.4.7'});
	t.regex(String(events.at(-1)?.detail?.reason), /^4\.4\.7 .*450 4\.2\.0 later$/);
	const attempts = recipients[0]?.attempts ?? [];
	const last = Date.parse(attempts.at(-1)?.at ?? '') - Date.parse(message.created_at);
	t.true(last > lifetimeMs - 1000, `the last of ${attempts.length} tries was ${last} ms after acceptance`);
	t.is(recipients[0]?.next_attempt_at, null);
	const asked = host('mx.a.example').connections.flatMap(({commands}) => commands.filter(line => /^RCPT/.test(line)));
	t.is(asked.length, attempts.length);
	t.like(await program.cli('suppression', 'check', 'user@a.example'), {suppressed: false});
	t.is(await daemon.stop(), 0);
});
