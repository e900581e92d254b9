import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {logged} from '../helpers/daemon.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';

test('a destination with its own retry schedule and lifetime overrides the settings; SIGHUP reloads them', async t => {
	const deferring = {rcpt: '450 4.2.0 later'};
	const {program} = await startMailHosts(
		t,
		{'mx.own.example': deferring, 'mx.hosted.example': deferring, 'mx.other.example': deferring},
		{},
		{
			MAILCTL_DESTINATIONS_FILE: 'destinations.json',
			MAILCTL_RETRY_SCHEDULE: '1h*',
			MAILCTL_QUEUE_LIFETIME: '2h',
		},
	);
	const write = (retry: string, lifetime: string) =>
		writeFileSync(
			join(program.folder, 'destinations.json'),
			JSON.stringify({
				own: {domains: ['own.example'], retry, lifetime},
				hosted: {mx: ['mx.hosted.example'], retry: '100ms,100ms'},
			}),
		);
	write('500ms*', '10s');
	const daemon = await program.serve();
	const {send, until, show, tried} = await clientOf(program, daemon);
	const own = await send('user@own.example');
	const hosted = await send('user@hosted.example');
	const other = await send('user@other.example');

	await until(own, 'bounced');
	const expired = {type: 'transient', category: 'expired', enhanced: '4.4.7'};
	t.like((await show(own)).events.at(-1)?.detail, expired);
	t.true((await tried(own)).length > 2);
	await until(hosted, 'bounced');
	t.like((await show(hosted)).events.at(-1)?.detail, expired);
	t.is((await tried(hosted)).length, 3, 'the first try and one for each wait');
	t.is((await tried(other)).length, 1);

	write('30m*', '45m');
	daemon.signal('SIGHUP');
	await logged(program, 'reloaded');
	const later = await send('user@own.example');
	await tried(later);
	const shown = await show(later);
	const waitMs = Date.parse(shown.recipients[0]?.next_attempt_at ?? '') - Date.parse(shown.message.created_at);
	t.true(waitMs > 26 * 60_000 && waitMs < 34 * 60_000, `it waits ${waitMs} ms`);

	const minutesOf = async (domain: string, {message}: Awaited<ReturnType<typeof show>>) => {
		const [why] = await program.cli<Array<{gives_up_at: string}>>('queue', 'why', '--destination', domain);
		return Math.round((Date.parse(why?.gives_up_at ?? '') - Date.parse(message.created_at)) / 60_000);
	};
	t.is(await minutesOf('own.example', shown), 45);
	t.is(await minutesOf('other.example', await show(other)), 120);
	t.like(await program.cli('config', 'pace', 'own.example'), {retry: '30m*', lifetime: '45m'});
	t.like(await program.cli('config', 'pace', 'other.example'), {retry: null, lifetime: null});
	t.is(await daemon.stop(), 0);
});
