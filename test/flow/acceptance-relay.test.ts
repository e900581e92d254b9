import test from 'ava';
import {prepareProgram} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {clientOf} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

test('a smarthost that refuses our password: nothing is bounced, mail waits, uncounted, and goes when it is taken', async t => {
	t.timeout(60_000);
	let taken = false;
	let logIns = 0;
	const relay = await startFakeMx(t, {
		extensions: ['AUTH PLAIN', 'PIPELINING'],
		auth() {
			logIns += 1;
			return taken ? undefined : '535 5.7.8 authentication failed';
		},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://user:secret-word@127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		// Three tries, then a mail is given up: so many refusals would end one that is counted.
		MAILCTL_RETRY_SCHEDULE: '200ms,300ms',
		MAILCTL_RATE_LIMIT: '0',
	});
	const daemon = await program.serve();
	const {send, until, status, show} = await clientOf(program, daemon);
	const to = ['ann@a.example', 'bob@b.example', 'eve@c.example'];
	const ids = await Promise.all(to.map(address => send(address)));

	await waitFor('it knocks again and again', () => logIns >= 6, 20_000);
	for (const [n, id] of ids.entries()) {
		t.true(
			['accepted', 'queued'].includes(await status(id)),
			'one at a time is offered, the others need not be claimed',
		);
		t.like(await program.cli('suppression', 'check', to[n] ?? ''), {suppressed: false});
	}
	const late = await send('late@d.example');
	const [shown] = await Promise.all([show(ids[0] ?? ''), waitFor('and once more', () => logIns >= 8, 20_000)]);
	t.truthy(shown.recipients[0]?.next_attempt_at, 'it is in the queue');
	t.true(['accepted', 'queued'].includes(await status(late)));
	t.is(
		relay.connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))),
		false,
	);
	t.false((await program.log()).includes('secret-word'));

	taken = true;
	await Promise.all([...ids, late].map(id => until(id, 'delivered', 20_000)));
	t.is(relay.count(), 4);
	t.is(await daemon.stop(), 0);
});
