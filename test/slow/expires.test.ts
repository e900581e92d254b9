import test from 'ava';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

test('a message expires on time while its mail server is stuck, suspended or defers, or while it is held', async t => {
	const {program, host} = await startMailHosts(t, {
		'mx.stuck.example': {mail: {do: 'never'}},
		'mx.later.example': {rcpt: '450 4.2.0 later'},
		'mx.well.example': {},
	});
	// Before there is a daemon: a running one learns of it a moment later.
	await program.cliBytes('init');
	await program.cliBytes('queue', 'suspend', 'suspended.example');
	const daemon = await program.serve();
	const {send, status, until, show} = await clientOf(program, daemon);
	const expiring = (to: string) => send(to, {expiresAt: '+60s'});
	const begun = Date.now();
	const well = await expiring('user@well.example');
	const ids = await Promise.all(['stuck', 'later', 'suspended'].map(name => expiring(`user@${name}.example`)));
	const patient = await send('user@suspended.example');
	await waitFor('the stuck conversation', () => host('mx.stuck.example').open() === 1);
	const held = await expiring('held@suspended.example');
	await program.cliBytes('queue', 'hold', held);
	await until(well, 'delivered');
	for (const id of [...ids, held]) {
		await until(id, 'bounced');
		t.log(`${(Date.now() - begun) / 1000} s after the first send`);
		const {events} = await show(id);
		const end = events.at(-1) as {readonly type: string; readonly detail?: Record<string, unknown>};
		t.like(end, {type: 'bounced', detail: {type: 'transient', category: 'expired', enhanced: '4.4.7'}});
		t.regex(String(end.detail?.reason), /^4\.4\.7 Not delivered before it expired; /);
	}
	t.is(await status(patient), 'accepted');
	t.deepEqual(await program.cli('suppression', 'list'), []);
	t.is(await daemon.stop(), 0);
});
