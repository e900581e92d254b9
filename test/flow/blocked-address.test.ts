import test from 'ava';
import type {Why} from '../../src/resources/messages/why.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

type Summary = {
	readonly destination: string;
	readonly suspended_by: string | null;
	readonly suspension_reason: string | null;
	readonly suspension_advice: string | null;
};

test('suspends a mail server that blocks our address and names a contact; a content refusal stops nothing', async t => {
	const {program, host} = await startMailHosts(
		t,
		{
			'mx.hangup.example': {rcpt: ['550 IP is Hangup']},
			'mx03.t-online.de': {rcpt: ['554 IP=192.0.2.1 - A problem occurred. (BL)']},
			'mx.spam.example': {rcpt: ['550 5.7.1 Message rejected as spam']},
		},
		{'t-online.de': {mx: [[10, 'mx03.t-online.de']]}},
	);
	const daemon = await program.serve();
	const {send, status} = await clientOf(program, daemon);
	const domains = ['hangup.example', 't-online.de', 'spam.example'];
	const first = await Promise.all(domains.map(domain => send(`ann@${domain}`)));
	await waitFor('all are refused', async () =>
		(await Promise.all(first.map(status))).every(state => state === 'bounced'),
	);
	const [hangup = '', telekom = '', spam = ''] = await Promise.all(domains.map(domain => send(`bob@${domain}`)));
	await waitFor('the next message is delivered', async () => (await status(spam)) === 'delivered');

	const rows = await waitFor('both are suspended', async () => {
		const all = await program.cli<Summary[]>('queue', 'summary');
		return all.filter(row => row.suspended_by === 'failures').length === 2 && all;
	});
	const rowOf = (domain: string) => rows.find(({destination}) => destination === domain);
	t.like(rowOf('hangup.example'), {suspension_reason: '550 IP is Hangup'});
	t.regex(rowOf('hangup.example')?.suspension_advice ?? '', /mailctl doctor/);
	t.regex(rowOf('t-online.de')?.suspension_advice ?? '', /tosa@rx\.t-online\.de/);
	t.is(rowOf('spam.example'), undefined);
	const {stdout} = await program.run('queue', 'summary');
	t.regex(stdout, /^t-online\.de: our address is blocked\. What to do: ask Deutsche Telekom/m);

	for (const id of [hangup, telekom]) {
		t.not(await status(id), 'bounced');
		const [why] = await program.cli<Why[]>('queue', 'why', id);
		t.is(why?.waits_for, 'suspension');
		t.true(Date.parse(why?.until ?? '') - Date.now() > 3_600_000);
	}
	const rcpts = host('mx.hangup.example').connections.flatMap(({commands}) =>
		commands.filter(line => line.startsWith('RCPT')),
	);
	t.is(rcpts.length, 1);
	t.regex(await program.log(), /"event":"site_suspended"[^\n]*tosa@rx\.t-online\.de/);
	await waitFor('the alert', async () => /"kind":"provider_blocks","subject":"t-online"/.test(await program.log()));
	t.is(await daemon.stop(), 0);
});
