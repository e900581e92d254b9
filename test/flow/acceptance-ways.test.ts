import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import type {Why} from '../../src/resources/messages/why.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import type {Daemon, Welcome} from '../helpers/daemon.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {addShop} from '../helpers/second-shop.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

async function sendFrom({url}: Daemon, {key, from, templateId}: Welcome, to: string): Promise<string> {
	const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId});
	if (status !== 202) {
		throw new Error(`${to}: ${status} ${JSON.stringify(body)}`);
	}
	return (body as {id: string}).id;
}

/** The messages a mail server received, as `recipient address EHLO-name`. */
const arrivals = ({received}: FakeMx) =>
	received
		.map(({to, connection}) => `${to} ${connection.remoteAddress} ${connection.commands[0]?.replace('EHLO ', '')}`)
		.sort();

const dayMs = 86_400_000;

test.serial('a new source address sends its daily share; the rest waits or goes through the relay', async t => {
	t.timeout(600_000);
	await waitFor('the day is long enough', () => Date.now() % dayMs < dayMs - 180_000, 200_000);
	const source = loopbackAddress();
	const relay = await startFakeMx(t, {host: loopbackAddress()});
	const {program, host} = await startMailHosts(
		t,
		{'mx.a.example': {}, 'mx.b.example': {}},
		{},
		{
			MAILCTL_SOURCE_ADDRESSES: `${source}=new.shop.example`,
			MAILCTL_WARM_UP: `${source}=${new Date().toISOString().slice(0, 10)}`,
		},
	);
	const count = () => host('mx.a.example').count() + host('mx.b.example').count();
	const first = await program.serve();
	const {send} = await clientOf(program, first);
	// Two domains, one group of hosts: they share it.
	const ids = await Promise.all(Array.from({length: 60}, (_, n) => send(`user${n}@${n % 2 ? 'a' : 'b'}.example`)));
	await waitFor('the share of the first day', () => count() === 50);
	const whys = () => program.cli<Why[]>('queue', 'why', ...ids);
	const waiting = await waitFor('ten wait for another day', async () => {
		const left = (await whys()).filter(({waits_for}) => waits_for !== null);
		return left.every(({waits_for}) => waits_for === 'warm_up') && left;
	});
	t.is(waiting.length, 10);
	t.regex(waiting[0]?.detail ?? '', /has sent default its 50 messages for today/);
	t.is(waiting[0]?.until, new Date((Math.floor(Date.now() / dayMs) + 1) * dayMs).toISOString());
	t.is(count(), 50);
	const hosts = [host('mx.a.example'), host('mx.b.example')];
	t.true(hosts.flatMap(arrivals).every(line => line.endsWith(` ${source} new.shop.example`)));
	t.is(await first.stop(), 0);

	// With a smarthost nothing waits; what was sent today still counts.
	const second = await program.serve({MAILCTL_RELAY_URL: `smtp://${relay.host}:${relay.port}`});
	await waitFor('the rest', () => relay.count() === 10);
	const again = await clientOf(program, second);
	const late = await again.send('late@a.example');
	await waitFor('it too', () => relay.count() === 11);
	await again.until(late, 'sent');
	t.is(count(), 50);
	t.is(await second.stop(), 0);
});

test.serial('source pools and routes of a destination take precedence over those of a workspace', async t => {
	const [one, two] = [loopbackAddress(), loopbackAddress()];
	const own = await startFakeMx(t, {host: loopbackAddress()});
	const named = await startFakeMx(t, {host: loopbackAddress()});
	const file = join(await temporaryFolder(t), 'destinations.json');
	const url = ({host, port}: FakeMx) => `smtp://${host}:${port}`;
	writeFileSync(
		file,
		JSON.stringify({
			bulky: {domains: ['bulky.example'], pool: 'bulk'},
			direct: {domains: ['direct.example'], route: 'mx'},
			via: {mx: ['mx.via.example'], route: url(named)},
		}),
	);
	const {program, host} = await startMailHosts(
		t,
		Object.fromEntries(['a', 'bulky', 'direct', 'via'].map(name => [`mx.${name}.example`, {}])),
		{},
		{
			MAILCTL_SOURCE_ADDRESSES: `${one}=one.shop.example,${two}=two.shop.example`,
			MAILCTL_SOURCE_POOLS: `otp=${one},bulk=${two}`,
			MAILCTL_DESTINATIONS_FILE: file,
		},
	);
	const daemon = await program.serve();
	const shops = new Map([
		['otp', await addShop(program, 'otp', ['--pool', 'otp'])],
		['bulk', await addShop(program, 'bulk', ['--pool', 'bulk'])],
		['relayed', await addShop(program, 'relayed', ['--pool', 'otp', '--route', url(own)])],
	]);
	for (const [name, shop] of shops) {
		for (const domain of ['a', 'bulky', 'direct', 'via']) {
			await sendFrom(daemon, shop, `${name}@${domain}.example`);
		}
	}
	const mx = (name: string) => host(`mx.${name}.example`);
	const all = [own, named, mx('a'), mx('bulky'), mx('direct'), mx('via')];
	await waitFor('all arrived', () => all.reduce((sum, each) => sum + each.count(), 0) === 12);
	const [byOne, byTwo] = [`${one} one.shop.example`, `${two} two.shop.example`];
	t.deepEqual(arrivals(mx('a')), [`bulk@a.example ${byTwo}`, `otp@a.example ${byOne}`]);
	// The destination's pool goes before the workspace's, its route before the workspace's smarthost.
	t.deepEqual(arrivals(mx('bulky')), [`bulk@bulky.example ${byTwo}`, `otp@bulky.example ${byTwo}`]);
	t.deepEqual(arrivals(mx('direct')), [
		`bulk@direct.example ${byTwo}`,
		`otp@direct.example ${byOne}`,
		`relayed@direct.example ${byOne}`,
	]);
	t.deepEqual(arrivals(mx('via')), []);
	t.deepEqual(arrivals(named), [
		`bulk@via.example ${byTwo}`,
		`otp@via.example ${byOne}`,
		`relayed@via.example ${byOne}`,
	]);
	t.deepEqual(arrivals(own), [`relayed@a.example ${byOne}`, `relayed@bulky.example ${byTwo}`]);

	// A change holds without a restart.
	await program.cli('workspace', 'update', 'relayed', '--route', 'default', '--pool', 'bulk');
	const relayed = shops.get('relayed') as Welcome;
	await waitFor('the change holds', async () => {
		const id = await sendFrom(daemon, relayed, 'again@a.example');
		const state = async () =>
			((await call(`${daemon.url}/v1/messages/${id}`, relayed.key)).body as {status: string}).status;
		await waitFor('it went', async () => ['sent', 'delivered'].includes(await state()));
		return arrivals(mx('a')).includes(`again@a.example ${byTwo}`);
	});
	t.is(await daemon.stop(), 0);
});

test.serial('uses relays in order, and the next one after any failure', async t => {
	const certificate = makeCertificate('elsewhere.example');
	const gone = await startFakeMx(null, {host: loopbackAddress()});
	await gone.close();
	const relays: Array<readonly [FakeMx, string, RegExp]> = [
		[gone, '', /connect null .*ECONNREFUSED/],
		[await startFakeMx(t, {host: loopbackAddress(), greeting: '554 5.3.2 closed'}), '', /greeting 554/],
		[
			await startFakeMx(t, {
				host: loopbackAddress(),
				extensions: ['AUTH PLAIN'],
				auth: '535 5.7.8 Authentication credentials invalid',
			}),
			'user:wrong@',
			/auth 535/,
		],
		[await startFakeMx(t, {host: loopbackAddress(), mail: '451 4.3.0 later'}), '', /mail 451/],
		[await startFakeMx(t, {host: loopbackAddress(), tls: certificate}), 'user:secret@', /starttls null/],
		[await startFakeMx(t, {host: loopbackAddress()}), '', /dot 250/],
	];
	const urls = relays.map(([{host, port}, login, pattern]) => {
		const tls = String(pattern).includes('auth') ? '?tls=none' : '';
		return `smtp://${login}${host}:${port}${tls}`;
	});
	const {program} = await startMailHosts(
		t,
		{'mx.a.example': {}},
		{},
		{MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: urls.join(',')},
	);
	const daemon = await program.serve();
	const {send, until, show} = await clientOf(program, daemon);
	const id = await send('user@a.example');
	await until(id, 'sent');
	const attempts = (await show(id)).recipients[0]?.attempts ?? [];
	const told = attempts.map(({phase, code, reply}) => `${phase} ${code} ${reply}`);
	t.is(told.length, relays.length, told.join('\n'));
	for (const [n, [, , pattern]] of relays.entries()) {
		t.regex(told[n] ?? '', pattern);
	}
	t.is(relays.at(-1)?.[0].count(), 1);
	const said = relays.flatMap(([{connections}]) => connections.flatMap(({commands}) => commands)).join('\n');
	t.notRegex(
		said,
		new RegExp(Buffer.from('\0user\0secret').toString('base64')),
		'no password to whom we do not know',
	);
	t.is(await daemon.stop(), 0);
});
