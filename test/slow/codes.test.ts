import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {insertBacklog} from '../helpers/backlog.ts';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** The messages waiting for each destination, and how long each takes there, in milliseconds. */
const [newsletters, mailMs] = [100_000, 200];
const codes = 10;
/** The most messages that a connection accepts per second. */
const perSecond = 1000 / mailMs;

for (const connections of [1, 5]) {
	test(`sends a code within a second beside 100,000 newsletters, over at most ${connections} connections`, async t => {
		t.timeout(600_000);
		const order: string[] = [];
		const mx = await startFakeMx(t, {
			host: loopbackAddress(),
			dot(_line, connection) {
				order.push(connection.commands.findLast(line => line.startsWith('RCPT')) ?? '');
				setTimeout(() => connection.say('250 2.0.0 Taken\r\n'), mailMs);
				return {bytes: ''};
			},
		});
		const dns = await startFakeDns(t, {
			'inbox.example': {mx: [[10, 'mx.inbox.example']]},
			'mx.inbox.example': {a: [mx.host]},
		});
		const program = await prepareProgram(t, {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_HOSTNAME: 'mail.shop.example',
			MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_MX_PORT: String(mx.port),
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
			MAILCTL_RATE_LIMIT: '0',
			MAILCTL_DESTINATIONS_FILE: 'destinations.json',
			MAILCTL_LOG_LEVEL: 'warn',
		});
		const pace = {connections, startConnections: connections};
		await writeFile(join(program.folder, 'destinations.json'), JSON.stringify({default: pace}));
		const first = await program.serve({MAILCTL_LOG_LEVEL: 'info'});
		await first.stop();
		const {key, from, templateId} = await welcomeOf(program);
		const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
		const {id: workspaceId} = await store.reader('workspaces').first('id');
		const now = Date.now();
		await insertBacklog(store, {
			...{workspaceId, from, templateId, recipients: newsletters},
			destinationOf: () => 'inbox.example',
			dueOf: index => now - 60_000 + (index % 1000),
		});
		await store.database('queue').update({priority: -1});
		await store.close();

		const daemon = await program.serve();
		await waitFor('the newsletters run', () => order.length > 10 * connections);
		const times: number[] = [];
		for (let code = 0; code < codes; code++) {
			const to = `code${code}@inbox.example`;
			const {status} = await call(`${daemon.url}/v1/messages`, key, {from, to, templateId, priority: 'high'});
			const [taken, before] = [performance.now(), order.length];
			t.is(status, 202);
			const place = await waitFor(to, () => {
				const index = order.findIndex(line => line.includes(to));
				return index !== -1 && index;
			});
			times.push(Math.round(performance.now() - taken));
			t.true(place - before <= perSecond * connections, `${place - before} newsletters went before ${to}`);
		}
		t.log(`codes were there after ${times.join(', ')} ms`);
		const went = order.length;
		await waitFor('the newsletters go on', () => order.length > went + 10);
		t.true(mx.maxOpen() <= connections, `${mx.maxOpen()} connections`);
		const [queue] = await program.cli<Array<{by_priority: object}>>('queue', 'summary');
		t.like(queue?.by_priority, {high: 0, normal: 0});
		t.is(await daemon.stop(), 0);
	});
}
