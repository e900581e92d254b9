import {Resolver} from 'node:dns/promises';
import {resolve} from 'node:path';
import test from 'ava';
import {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import {eventsOf, prepareProgram} from '../helpers/daemon.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type Received, startFakeMx} from '../helpers/fake-mx.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Domain = {
	readonly state: string;
	readonly verified: boolean;
	readonly return_path_used: boolean;
	readonly records: ReadonlyArray<ToPublish & {readonly key: {readonly state: string} | null}>;
};

test('takes a domain from its first DNS record through verification to its second pair of keys', async t => {
	const mx = await startFakeMx(t);
	const dns = await startFakeDns(t, {
		'buyer.example': {mx: [[10, 'mx.buyer.example']]},
		'mx.buyer.example': {a: [mx.host]},
		'out.mail.example': {a: ['192.0.2.1']},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'out.mail.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.mail.example',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
	});
	await program.cliBytes('init');
	const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'flow');
	const [template] = await program.cli<Array<{id: string}>>(
		'template',
		'push',
		resolve('test/fixtures/flow/templates'),
	);
	const {records} = await program.cli<Domain>('domain', 'add', 'shop.example');
	await program.cli('sender', 'add', 'orders@shop.example');
	const stateOf = async () => (await program.cli<Domain[]>('domain', 'list'))[0]?.state;

	const idle = await program.serve();
	const from = 'orders@shop.example';
	const send = async (url: string, sender = from) =>
		await call(`${url}/v1/messages`, key, {from: sender, to: 'ann@buyer.example', templateId: template?.id});
	t.like(await send(idle.url), {status: 422, body: {error: {code: 'sender_not_available'}}});
	t.is(await stateOf(), 'pending');
	t.is(await idle.stop(), 0);

	// By itself: the first check of a domain that was never seen is due at once.
	const own = records.filter(({purpose}) => purpose === 'ownership' || purpose === 'dkim');
	publish(dns.zone, own);
	await program.cli('domain', 'add', 'late.example').then(late => publish(dns.zone, (late as Domain).records));
	const daemon = await program.serve();
	await waitFor('late.example is verified', async () => (await stateOf()) === 'verified');
	// There is a line of the other domain too, if the daemon before had no time to look at it.
	const line = await waitFor('its line in the log', async () =>
		(await eventsOf(program, 'domain_state')).find(({domain}) => domain === 'late.example'),
	);
	t.like(line, {from: 'pending', to: 'verified'});
	t.like(await call(`${daemon.url}/v1/senders`, key, {address: 'new@late.example'}), {
		status: 201,
		body: {verified: true},
	});
	t.like(await send(daemon.url, 'new@late.example'), {status: 202});

	t.like(await program.cli('domain', 'verify', 'shop.example'), {state: 'verified', return_path_used: false});
	await waitFor('the sender may send', async () => (await send(daemon.url)).status === 202);
	const first = await arrived(mx.received, '@shop.example', 1);
	t.regex(first.from, /@bounces\.mail\.example$/);
	t.deepEqual(await signatures(first, dns.server), ['mc1: pass', 'mc2: pass']);

	const {records: fresh} = await program.cli<Domain>('domain', 'rotate-key', 'shop.example');
	t.is((await send(daemon.url)).status, 202);
	const second = await arrived(mx.received, '@shop.example', 2);
	t.deepEqual(await signatures(second, dns.server), ['mc1: pass', 'mc2: pass'], 'DNS does not show the new keys');

	publish(dns.zone, fresh);
	publish(
		dns.zone,
		records.filter(({purpose}) => purpose === 'return_path' || purpose === 'spf'),
	);
	t.like(await program.cli('domain', 'verify', 'shop.example'), {state: 'verified', return_path_used: true});
	let sent = 2;
	const last = await waitFor('the daemon takes the new keys', async () => {
		await send(daemon.url);
		sent++;
		const mail = await arrived(mx.received, '@shop.example', sent);
		return mail.data.includes('s=mc3') ? mail : null;
	});
	t.deepEqual(await signatures(last, dns.server), ['mc3: pass', 'mc4: pass']);
	t.regex(last.from, /@bounce\.shop\.example$/, 'its own return path, because DNS shows MX and SPF');
	t.deepEqual(await signatures(first, dns.server), ['mc1: pass', 'mc2: pass'], 'old mail is still verified');
	const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
	t.regex(metrics, /^mailctl_domains\{state="verified"\} 2$/m);
	t.is(await daemon.stop(), 0);
	t.notRegex(await program.log(), /PRIVATE KEY/);
});

/** The nth message from a domain. */
async function arrived(received: readonly Received[], domain: string, count: number): Promise<Received> {
	const from = () => received.filter(({data}) => new RegExp(`^From: .*${domain}>?\\r$`, 'm').test(data.toString()));
	return await waitFor(`mail ${count} from ${domain}`, () => from()[count - 1]);
}

/** The verdict of mailauth on each signature with the keys in DNS, such as `mc1: pass`. */
async function signatures({data}: Received, server: string): Promise<string[]> {
	const dns = new Resolver();
	dns.setServers([server]);
	const {results} = await dkimVerify(data, {resolver: async name => await dns.resolveTxt(name)});
	return results.map(({selector, status}) => `${selector}: ${status.result}`);
}
