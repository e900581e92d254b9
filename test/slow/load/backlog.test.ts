import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {openStore, type StoreLocation} from '../../../src/store/store.ts';
import {insertBacklog} from '../../helpers/backlog.ts';
import {prepareProgram, welcomeOf} from '../../helpers/daemon.ts';
import {startFakeDns, type Zone} from '../../helpers/fake-dns.ts';
import {startFakeMx} from '../../helpers/fake-mx.ts';
import {scaled} from '../../helpers/load-scale.ts';
import {loopbackAddress} from '../../helpers/loopback.ts';
import {call} from '../../helpers/shop.ts';
import {waitFor} from '../../helpers/wait.ts';

const recipients = scaled(200_000);
const sites = scaled(5000);
/** Those of them whose next attempt is due. */
const due = Math.ceil(recipients / 3);
const probes = 10;
const maxMb = 400;

/** A memory figure of a process in MB, from /proc. */
const memoryMb = (pid: number, name: 'VmRSS' | 'VmHWM') =>
	Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

test('a backlog with a dead and a slow provider does not delay new messages to a healthy one', async t => {
	t.timeout(600_000);
	const well = await startFakeMx(t, {host: loopbackAddress(), countOnly: true});
	const probed = await startFakeMx(t, {host: loopbackAddress(), port: well.port});
	const dead = await startFakeMx(t, {host: loopbackAddress(), port: well.port, greeting: {do: 'never'}});
	const slow = await startFakeMx(t, {
		host: loopbackAddress(),
		port: well.port,
		dot(_line, connection) {
			setTimeout(() => connection.say('250 2.0.0 Taken at last\r\n'), 5000);
			return {do: 'never'};
		},
	});
	const zone: Zone = {
		'mx.new.example': {a: [probed.host]},
		...Object.fromEntries(
			Array.from({length: sites}, (_, n) => [
				`mx.site${n}.example`,
				{a: [n === 0 ? dead.host : n === 1 ? slow.host : well.host]},
			]),
		),
		...Object.fromEntries(
			[...Array.from({length: sites}, (_, n) => `site${n}.example`), 'new.example'].map(name => [
				name,
				{mx: [[10, `mx.${name}`]] as const},
			]),
		),
	};
	const dns = await startFakeDns(t, zone);
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(well.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_RATE_LIMIT: '0',
		MAILCTL_LOG_LEVEL: 'warn',
	});
	const first = await program.serve({MAILCTL_LOG_LEVEL: 'info'});
	await first.stop();
	const {key, from, templateId} = await welcomeOf(program);

	const location: StoreLocation = {file: join(program.folder, 'data/mailctl.db')};
	const store = await openStore(location);
	const {id: workspaceId} = await store.reader('workspaces').first('id');
	const now = Date.now();
	await insertBacklog(store, {
		...{workspaceId, from, templateId, recipients},
		destinationOf: index => `site${index % sites}.example`,
		// A third is due, the rest in the next four hours.
		dueOf: index => (index % 3 === 0 ? now - 60_000 + (index % 1000) : now + index * 72),
	});
	await store.close();

	const daemon = await program.serve();
	t.log(`ready after ${Math.round(daemon.readyMs)} ms`);
	await waitFor('the backlog to run', () => well.count() > 100 && dead.connections.length > 0, 180_000);
	const times: number[] = [];
	for (let probe = 0; probe < probes; probe++) {
		// New ones go to a site that has had no mail, and to sites with a backlog.
		const site = probe % 2 === 0 ? 'new.example' : `site${2 + probe}.example`;
		const before = probe % 2 === 0 ? probed.count() : 0;
		const {status, body} = await call(`${daemon.url}/v1/messages`, key, {
			from,
			to: `new${probe}@${site}`,
			templateId,
		});
		const taken = performance.now();
		t.is(status, 202, JSON.stringify(body));
		const {id} = body as {id: string};
		await waitFor(
			`mail to ${site}`,
			async () =>
				probe % 2 === 0
					? probed.count() > before
					: ((await call(`${daemon.url}/v1/messages/${id}`, key)).body as {status: string}).status ===
						'delivered',
			180_000,
		);
		times.push(Math.round(performance.now() - taken));
	}
	const wentBefore = well.count();
	t.log(`a new mail left after ${times.join(', ')} ms; ${wentBefore} of the backlog went`);
	t.log(`${Math.round(memoryMb(daemon.pid, 'VmRSS'))} MB, at most ${Math.round(memoryMb(daemon.pid, 'VmHWM'))} MB`);
	// Mail that waits behind others waits for them all.
	t.true(wentBefore < due / 2, `${wentBefore} of ${due} went before the last of ${probes} new mails`);
	t.true(memoryMb(daemon.pid, 'VmHWM') < maxMb);
	t.true(dead.maxOpen() <= 2);
	t.is(await daemon.stop(), 0);
});
