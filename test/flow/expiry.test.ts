import test from 'ava';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';

test('a workspace with a lifetime of seconds: given up as expired, transient, nothing is suppressed', async t => {
	const {program, host} = await startMailHosts(
		t,
		{'mx.a.example': {rcpt: '450 4.2.0 later'}},
		{},
		{MAILCTL_RETRY_SCHEDULE: '500ms*'},
	);
	const daemon = await program.serve();
	await program.cliBytes('workspace', 'update', 'default', '--queue-lifetime', '3s');
	const {send, until, show} = await clientOf(program, daemon);
	const id = await send('user@a.example');
	await until(id, 'bounced', 20_000);

	const {events, recipients} = await show(id);
	t.like(events.at(-1)?.detail, {type: 'transient', category: 'expired', enhanced: '4.4.7'});
	t.regex(String(events.at(-1)?.detail?.reason), /^4\.4\.7 .*450 4\.2\.0 later$/);
	const attempts = recipients[0]?.attempts ?? [];
	t.true(attempts.length >= 2, `tries: ${attempts.length}`);
	t.is(recipients[0]?.next_attempt_at, null);
	const asked = host('mx.a.example').connections.flatMap(({commands}) => commands.filter(line => /^RCPT/.test(line)));
	t.is(asked.length, attempts.length);
	t.like(await program.cli('suppression', 'check', 'user@a.example'), {suppressed: false});
	t.is(await daemon.stop(), 0);
});
