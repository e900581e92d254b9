import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {logged, type Program, prepareProgram, type Settings, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type World = {
	readonly program: Program;
	/** Takes the mail of `a.example` and `b.example`. */
	readonly mx: FakeMx;
	readonly smarthost: FakeMx;
	readonly sources: readonly [string, string];
	readonly destinationsFile: string;
	readonly writeDestinations: (entries: unknown) => void;
};

/** A program in mx mode with two source addresses, a mail host, and a smarthost that is not its own. */
async function startWorld(t: ExecutionContext, more: (world: Omit<World, 'program'>) => Settings = () => ({})) {
	const mx = await startFakeMx(t, {host: loopbackAddress()});
	const smarthost = await startFakeMx(t, {host: loopbackAddress()});
	const dns = await startFakeDns(t, {
		'a.example': {mx: [[10, 'mx.example']]},
		'b.example': {mx: [[10, 'mx.example']]},
		'mx.example': {a: [mx.host]},
	});
	const sources = [loopbackAddress(), loopbackAddress()] as const;
	let folder = '';
	const world = {
		mx,
		smarthost,
		sources,
		destinationsFile: 'destinations.json',
		writeDestinations: (entries: unknown) =>
			writeFileSync(join(folder, 'destinations.json'), typeof entries === 'string' ? entries : JSON.stringify(entries)),
	};
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_SOURCE_ADDRESSES: `${sources[0]}=otp.shop.example,${sources[1]}=bulk.shop.example`,
		MAILCTL_SOURCE_POOLS: `otp=${sources[0]},bulk=${sources[1]}`,
		...more(world),
	});
	folder = program.folder;
	return {...world, program};
}

async function send(url: string, {key, from, templateId}: Welcome, to: string): Promise<void> {
	const {status} = await call(`${url}/v1/messages`, key, {from, to, templateId});
	if (status !== 202) {
		throw new Error(`refused: ${status}`);
	}
}

const arrived = (host: FakeMx, to: string) =>
	waitFor(`mail to ${to}`, () => host.received.find(mail => mail.to.includes(to)));

test('a workspace sends from its pool under the name said there, then by a smarthost of its own', async t => {
	const {program, mx, smarthost, sources} = await startWorld(t);
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	await program.cli('workspace', 'update', 'default', '--pool', 'otp');
	await waitFor('the pool holds', async () => {
		await send(daemon.url, shop, 'one@a.example');
		const {connection} = await arrived(mx, 'one@a.example');
		mx.received.length = 0;
		return connection.remoteAddress === sources[0] && connection.commands[0] === 'EHLO otp.shop.example';
	});
	await program.cli('workspace', 'update', 'default', '--pool', 'bulk');
	await waitFor('the other pool holds', async () => {
		await send(daemon.url, shop, 'two@b.example');
		const {connection} = await arrived(mx, 'two@b.example');
		mx.received.length = 0;
		return connection.remoteAddress === sources[1] && connection.commands[0] === 'EHLO bulk.shop.example';
	});

	const url = `smtp://${smarthost.host}:${smarthost.port}?tls=none`;
	await program.cli('workspace', 'update', 'default', '--route', url);
	await waitFor('the route holds', async () => {
		await send(daemon.url, shop, 'three@nowhere.example');
		return smarthost.received.length > 0;
	});
	t.is(smarthost.received[0]?.connection.remoteAddress, sources[1]);
	t.is(await daemon.stop(), 0);
});

test('an entry of the destinations file sends a domain by a smarthost; SIGHUP reads it anew, broken it stays as it was', async t => {
	const {program, mx, smarthost, writeDestinations} = await startWorld(t, ({destinationsFile}) => ({
		MAILCTL_DESTINATIONS_FILE: destinationsFile,
	}));
	const route = `smtp://${smarthost.host}:${smarthost.port}?tls=none`;
	writeDestinations({partner: {domains: ['a.example'], route}});
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	await send(daemon.url, shop, 'one@a.example');
	await send(daemon.url, shop, 'one@b.example');
	await arrived(smarthost, 'one@a.example');
	await arrived(mx, 'one@b.example');

	writeDestinations('{"partner": {"domains": ["b.example"], "conections": 3, "route": "nowhere"}');
	daemon.signal('SIGHUP');
	const [refusal] = await logged(program, 'reload_refused');
	t.regex(JSON.stringify(refusal), /MAILCTL_DESTINATIONS_FILE=.*is not JSON: look at line 1/);
	await send(daemon.url, shop, 'two@a.example');
	await arrived(smarthost, 'two@a.example');

	writeDestinations({partner: {domains: ['b.example'], route}});
	daemon.signal('SIGHUP');
	await logged(program, 'reloaded');
	await send(daemon.url, shop, 'three@a.example');
	await send(daemon.url, shop, 'three@b.example');
	await arrived(mx, 'three@a.example');
	await arrived(smarthost, 'three@b.example');
	t.is(await daemon.stop(), 0);
});

test('a destinations file with faults: exit 78 at the start and by config check, all told', async t => {
	const {program, writeDestinations} = await startWorld(t, ({destinationsFile}) => ({
		MAILCTL_DESTINATIONS_FILE: destinationsFile,
	}));
	writeDestinations({google: {connections: 0}, x: {}});
	for (const command of [['config', 'check'], ['serve']]) {
		const {code, stderr} = await program.run(...command);
		t.is(code, 78);
		t.regex(stderr, /destinations\.json" google\.connections: use a whole number, 1 to 1000\n/);
		t.regex(stderr, /destinations\.json" x: matches nothing/);
	}
});

test('what a workspace asks for and the settings do not have: said by the command and at the start', async t => {
	const {program} = await startWorld(t);
	await program.run('init');
	await program.cli('workspace', 'update', 'default', '--pool', 'otp');
	const daemon = await program.serve({MAILCTL_SOURCE_POOLS: ''});
	const [warning] = await logged(program, 'workspace_setting_unknown');
	t.regex(JSON.stringify(warning), /default: its source pool otp is not in MAILCTL_SOURCE_POOLS/);
	t.is(await daemon.stop(), 0);
});

test('a new source sends its share of the day, the rest goes to the smarthost', async t => {
	const today = new Date().toISOString().slice(0, 10);
	const {program, mx, smarthost, sources} = await startWorld(t, ({sources: [source], smarthost: {host, port}}) => ({
		MAILCTL_SOURCE_ADDRESSES: source,
		MAILCTL_SOURCE_POOLS: '',
		MAILCTL_WARM_UP: `${source}=${today}`,
		MAILCTL_RELAY_URL: `smtp://${host}:${port}?tls=none`,
	}));
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const messages = Array.from({length: 80}, (_, n) => ({from, to: `u${n}@${n % 2 ? 'a' : 'b'}.example`, templateId}));
	const {status} = await call(`${daemon.url}/v1/messages/batch`, key, {messages});
	t.true(status < 300);
	await waitFor('all has gone', () => mx.received.length + smarthost.received.length === 80);
	// Where midnight (UTC) passed meanwhile a second share was there.
	const share = today === new Date().toISOString().slice(0, 10) ? 50 : mx.received.length;
	t.is(mx.received.length, share);
	t.is(smarthost.received.length, 80 - share);
	t.true(mx.received.every(({connection}) => connection.remoteAddress === sources[0]));
	t.is(await daemon.stop(), 0);
});
