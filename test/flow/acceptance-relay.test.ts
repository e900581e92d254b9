import test from 'ava';
import {prepareProgram} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {clientOf} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

test('while a relay refuses our password, messages wait without counting attempts, and nothing bounces', async t => {
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

	await waitFor('it knocks again and again', () => logIns >= 6);
	for (const [n, id] of ids.entries()) {
		t.true(
			['accepted', 'queued'].includes(await status(id)),
			'one at a time is offered, the others need not be claimed',
		);
		t.like(await program.cli('suppression', 'check', to[n] ?? ''), {suppressed: false});
	}
	const late = await send('late@d.example');
	const [shown] = await Promise.all([show(ids[0] ?? ''), waitFor('and once more', () => logIns >= 8)]);
	t.truthy(shown.recipients[0]?.next_attempt_at, 'it is in the queue');
	t.true(['accepted', 'queued'].includes(await status(late)));
	t.is(
		relay.connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))),
		false,
	);
	const log = await program.log();
	t.false(log.includes('secret-word'));
	const refusals = log.split('\n').filter(line => line.includes('"log_in_refused"'));
	t.is(refusals.length, 1, 'the only smarthost, from the first refusal on');
	t.like(JSON.parse(refusals[0] ?? ''), {host: '127.0.0.1', code: 535, reply: '5.7.8 authentication failed'});
	const stopped = JSON.parse(log.split('\n').find(line => line.includes('"route_stopped"')) ?? '{}');
	t.regex(stopped.msg, /^535 5\.7\.8 authentication failed \(smarthost user@127.*\)\. Check user and password in /);
	const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
	t.true(Number(/^mailctl_log_in_refusals_total (\d+)$/m.exec(metrics)?.[1]) >= 1);

	taken = true;
	await until([...ids, late], 'delivered');
	t.is(relay.count(), 4);
	t.is(await daemon.stop(), 0);
});

test('uses the second relay if the first refuses our password, and reports it once without the password', async t => {
	const first = await startFakeMx(t, {extensions: ['AUTH PLAIN'], auth: line => `535 5.7.8 I do not know ${line}`});
	const second = await startFakeMx(t);
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://user:secret-word@127.0.0.1:${first.port}?tls=none,smtp://127.0.0.1:${second.port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RATE_LIMIT: '0',
	});
	const daemon = await program.serve();
	const {send, until} = await clientOf(program, daemon);
	const one = await send('ann@a.example');
	await until(one, 'delivered');
	await until(await send('bob@b.example'), 'delivered');
	const log = await program.log();
	const told = log.split('\n').flatMap(line => (line.includes('"log_in_refused"') ? [JSON.parse(line)] : []));
	t.like(told, {
		length: 1,
		0: {level: 'error', host: '127.0.0.1', reply: '5.7.8 I do not know AUTH PLAIN ****'},
	});
	const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
	t.regex(metrics, /^mailctl_log_in_refusals_total [1-9]/m);
	const shown = JSON.stringify(await program.cli('message', 'show', one));
	t.true(shown.includes('I do not know AUTH PLAIN ****'));
	const secret = Buffer.from('\0user\0secret-word').toString('base64');
	t.false(`${shown}${log}`.includes(secret));
	t.is(await daemon.stop(), 0);
});
