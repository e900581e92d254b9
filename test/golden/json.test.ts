import {readdirSync, readFileSync} from 'node:fs';
import test from 'ava';
import {newCli, storelessCli} from '../helpers/cli.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {commandsOf, createReplay} from '../helpers/transcript.ts';
import {fillGolden, goldenZone} from './content.ts';

// Scripts rely on the JSON and the exit codes of commands. Each transcript in test/fixtures/golden/json has commands
// of one noun. To cover another command, add its line to a transcript and run this test with UPDATE_GOLDEN=1.

const folder = 'test/fixtures/golden/json';

/** The transcripts share a store, so they run in the order of their names. */
const order = readdirSync(folder).toSorted();

test('commands print the recorded JSON and exit with the recorded code', async t => {
	const dns = await startFakeDns(t, goldenZone);
	const cli = await newCli(t, {
		MAILCTL_HOSTNAME: 'out.mail.example',
		MAILCTL_PUBLIC_URL: 'https://mail.example',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.mail.example',
		MAILCTL_SOURCE_ADDRESSES: '127.0.0.9',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
		MAILCTL_PROVIDER_HOSTS: 'postmark=127.0.0.1:1',
	});
	const replay = createReplay(t, cli);
	const [first = '', ...others] = order;
	await replay(`json/${first}`);
	await fillGolden(cli, dns.zone);
	for (const name of others) {
		await replay(`json/${name}`);
	}
});

test('commands without a store exit with the recorded code', async t => {
	await createReplay(t, await storelessCli(t))('missing-store.txt');
});

test('a transcript has each command, with --json', t => {
	const page = readFileSync('docs/reference/cli.md', 'utf8');
	const documented = [...page.matchAll(/^\| `([a-z-]+(?: [a-z-]+)?)/gm)].map(([, name = '']) => name);
	t.true(documented.length > 100);
	const recorded = order.flatMap(name => commandsOf(readFileSync(`${folder}/${name}`, 'utf8')));
	const missing = documented.filter(
		name => !recorded.some(line => line.startsWith(`${name} `) && line.endsWith(' --json')),
	);
	t.deepEqual(missing, []);
});
