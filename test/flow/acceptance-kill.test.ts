import {randomBytes} from 'node:crypto';
import test from 'ava';
import type {Answer, FakeMxOptions} from '../helpers/fake-mx.ts';
import {clientOf, headerOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const never: Answer[] = [{do: 'never'}];
const lockStep = ['8BITMIME'];

/** The step at which each mail server holds its first session until the kill. */
const before: Record<string, FakeMxOptions> = {
	greeting: {greeting: never},
	ehlo: {ehlo: never},
	starttls: {extensions: ['STARTTLS'], starttls: never},
	handshake: {brokenTls: 'silent'},
	mail: {mail: never},
	rcpt: {rcpt: never},
	data: {data: never},
	'mail-alone': {extensions: lockStep, mail: never},
	'rcpt-alone': {extensions: lockStep, rcpt: never},
	'data-alone': {extensions: lockStep, data: never},
	body: {body: [{do: 'freeze'}]},
};

test('kill -9 at every step of a session loses no message and repeats only one whose final dot was sent', async t => {
	const {program, dns, host} = await startMailHosts(
		t,
		{
			...Object.fromEntries(Object.entries(before).map(([name, script]) => [`mx.${name}.example`, script])),
			'mx.dot.example': {dot: [{do: 'take'}]},
			'mx.quit.example': {quit: never},
			'mx.rset.example': {rcpt: ['550 5.1.1 no such user'], rset: never},
			'mx.dns.example': {},
		},
		{'dns.example': 'timeout'},
		// A handshake that is silent is given up, and plain text tried, only by the next daemon.
		{MAILCTL_SMTP_TIMEOUTS: 'starttls=5m'},
	);
	const first = await program.serve();
	const client = await clientOf(program, first);
	const content = randomBytes(2 ** 20).toString('base64');
	const large = {filename: 'a.bin', contentType: 'application/octet-stream', content};
	const ids = new Map<string, string>();
	for (const name of [...Object.keys(before), 'dot', 'quit', 'rset']) {
		const more = name === 'body' ? {attachments: [large, large, large]} : {};
		ids.set(name, await client.send(`user@${name}.example`, more));
	}
	const idOf = (name: string) => ids.get(name) ?? '';

	await client.until(idOf('quit'), 'delivered');
	await client.until(idOf('rset'), 'bounced');
	const holding = [...Object.keys(before), 'dot', 'quit', 'rset'].map(name => host(`mx.${name}.example`));
	await waitFor('a session at each', () => holding.every(({connections}) => connections.length > 0));
	const said = (name: string, command: string) =>
		host(`mx.${name}.example`).connections[0]?.commands.some(line => line.startsWith(command)) === true;
	const steps = {
		ehlo: 'EHLO',
		starttls: 'STAR',
		handshake: 'STAR',
		mail: 'MAIL',
		rcpt: 'RCPT',
		data: 'DATA',
		body: 'DATA',
	};
	for (const [name, command] of Object.entries(steps)) {
		await waitFor(`${name}: ${command}`, () => said(name, command));
	}
	for (const command of ['mail', 'rcpt', 'data']) {
		await waitFor(`${command} alone`, () => said(`${command}-alone`, command.toUpperCase()));
	}
	await waitFor('the mail was taken', () => host('mx.dot.example').count() === 1);
	await waitFor('RSET was said', () => said('rset', 'RSET'));
	// Last: it is deferred where DNS does not answer within ten seconds.
	ids.set('dns', await client.send('user@dns.example'));
	await waitFor('DNS was asked', () => dns.queries.includes('MX dns.example'));
	const expected = [...Object.keys(before), 'dot', 'dns'];
	const timeline = async (daemon: {readonly url: string}, name: string) =>
		((await call(`${daemon.url}/v1/messages/${idOf(name)}/events`, client.shop.key)).body as {data: object[]}).data;
	const seen = new Map<string, object[]>();
	for (const name of expected) {
		// While DNS is asked for its way, nothing is claimed.
		t.is(await client.status(idOf(name)), name === 'dns' ? 'accepted' : 'queued');
		seen.set(name, await timeline(first, name));
	}
	await first.kill();

	dns.zone['dns.example'] = {mx: [[10, 'mx.dns.example']]};
	const second = await program.serve({MAILCTL_SMTP_TIMEOUTS: 'starttls=300ms'});
	const again = await clientOf(program, second);
	await again.until(expected.map(idOf), 'delivered');
	for (const [name, events] of seen) {
		t.deepEqual((await timeline(second, name)).slice(0, events.length), events, `${name}: what was seen stays`);
		t.is(events.length, name === 'dns' ? 1 : 2);
	}
	t.is(await again.status(idOf('quit')), 'delivered');
	t.is(await again.status(idOf('rset')), 'bounced');
	t.like((await timeline(second, 'dot')).at(-1), {type: 'delivered', detail: {possible_duplicate: true}});
	const told = await call(`${second.url}/v1/messages/${idOf('dot')}/attempts`, client.shop.key);
	t.deepEqual(
		(told.body as {data: Array<{phase: string; code: number | null}>}).data.map(({phase, code}) => [phase, code]),
		[
			['dot', null],
			['dot', 250],
		],
	);
	t.is(await second.stop(), 0);

	const counts = [...expected, 'quit', 'rset'].map(name => [name, host(`mx.${name}.example`).count()]);
	t.deepEqual(counts, [
		...Object.keys(before).map(name => [name, 1]),
		['dot', 2],
		['dns', 1],
		['quit', 1],
		['rset', 0],
	]);
	const twice = host('mx.dot.example').received.map(({data}) => headerOf(data, 'Message-ID'));
	t.truthy(twice[0]);
	t.is(twice[0], twice[1], 'a duplicate can be known by its Message-ID');
	t.is(host('mx.rset.example').connections.length, 1, 'a refusal that was recorded is not asked for again');
});
