import test from 'ava';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

const lifetimeMs = 20_000;

test('a message bounces as expired after the queue lifetime of its workspace, and no attempt follows', async t => {
	let isOpen = false;
	const {program, host} = await startMailHosts(
		t,
		{
			'mx.stuck.example': {greeting: {do: 'never'}},
			'mx.later.example': {rcpt: () => (isOpen ? undefined : '450 4.2.0 later')},
			'mx.a.example': {rcpt: '450 4.2.0 later'},
		},
		{},
		{MAILCTL_RETRY_SCHEDULE: '1s*'},
	);
	const daemon = await program.serve();
	await program.cliBytes('workspace', 'update', 'default', '--queue-lifetime', `${lifetimeMs}ms`);
	const {send, status, until, show, tried} = await clientOf(program, daemon);
	const id = await send('user@a.example');

	// Neither what waits for a stuck server nor what an operator suspended.
	const suspended = await send('user@later.example');
	const stuck = await Promise.all(Array.from({length: 20}, (_, n) => send(`user${n}@stuck.example`)));
	await tried(suspended);
	await program.cliBytes('queue', 'suspend', 'later.example');
	const stuckHost = host('mx.stuck.example');
	await waitFor('a connection', () => stuckHost.connections.length > 0);
	await until(suspended, 'bounced');
	isOpen = true;
	const under = stuckHost.connections.length;
	const detail = (await show(suspended)).events.at(-1)?.detail;
	t.like(detail, {type: 'transient', category: 'expired', enhanced: '4.4.7'});
	t.regex(String(detail?.reason), /^4\.4\.7 .*; last: 450 4\.2\.0 later$/);
	await waitFor('those without a connection', async () => {
		const states = await Promise.all(stuck.map(status));
		return states.filter(state => state === 'bounced').length >= stuck.length - under;
	});
	await program.cliBytes('queue', 'resume', 'later.example');
	for (const connection of stuckHost.connections) {
		connection.drop();
	}
	for (const id of stuck) {
		await until(id, 'bounced');
	}
	t.is(stuckHost.connections.length, under, 'nothing began after the end');
	t.is(host('mx.later.example').received.length, 0);

	await until(id, 'bounced');
	const {message, events, recipients} = await show(id);
	t.like(events.at(-1)?.detail, {type: 'transient', category: 'expired', enhanced: '4.4.7'});
	t.regex(String(events.at(-1)?.detail?.reason), /^4\.4\.7 .*450 4\.2\.0 later$/);
	const attempts = recipients[0]?.attempts ?? [];
	const end = Date.parse(events.at(-1)?.occurred_at ?? '') - Date.parse(message.created_at);
	// The last attempt is in the last tenth of it, unless the machine stood still.
	t.true(end > lifetimeMs * 0.8, `given up ${end} ms after acceptance, after ${attempts.length} attempts`);
	t.true(attempts.length > 1);
	t.is(recipients[0]?.next_attempt_at, null);
	const asked = host('mx.a.example').connections.flatMap(({commands}) => commands.filter(line => /^RCPT/.test(line)));
	t.is(asked.length, attempts.length);
	t.like(await program.cli('suppression', 'check', 'user@a.example'), {suppressed: false});
	t.is(await daemon.stop(), 0);
});
