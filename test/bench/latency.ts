import {once} from 'node:events';
import {writeFile} from 'node:fs/promises';
import {Agent, request} from 'node:http';
import {join} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import {parseArgs} from 'node:util';
import {makeCertificate} from '../helpers/certificate.ts';
import {prepareProgram, type Settings} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {waitFor} from '../helpers/wait.ts';

// One mail after the other on an idle daemon, from the POST to the 250 of the MX (`--by relay`: of a smarthost):
// node dist/test/bench/latency.js [--messages N] [--by mx|relay] [--tls] [--fresh]
// With --tls the MX offers STARTTLS, with --fresh each mail goes on a connection of its own.

const {values: options} = parseArgs({
	options: {
		messages: {type: 'string', default: '200'},
		by: {type: 'string', default: 'mx'},
		tls: {type: 'boolean', default: false},
		fresh: {type: 'boolean', default: false},
	},
});
const messages = Number(options.messages);
const warm = 20;
/** Between two mails everything comes to rest, milliseconds. */
const restMs = 30;

const teardowns: Array<() => unknown> = [];
const scope = {passed: true, log: console.log, teardown: (run: () => unknown) => void teardowns.push(run)};
const marks = {began: 0, answered: 0, mail: 0, accepted: 0};
const mx = await startFakeMx(scope, {
	countOnly: true,
	...(options.tls && {tls: makeCertificate('mx.example')}),
	mail() {
		marks.mail = performance.now();
		return undefined;
	},
	dot() {
		marks.accepted = performance.now();
		return undefined;
	},
});
const program = await prepareProgram(scope, {MAILCTL_RATE_LIMIT: '0', MAILCTL_LOG_LEVEL: 'warn', ...(await route())});
const destinations = join(program.folder, 'destinations.json');
await writeFile(destinations, JSON.stringify({default: {mailsPerSession: options.fresh ? 1 : 1000}}));
await program.cliBytes('init');
const from = 'hello@example.com';
const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'bench');
const [template] = await program.cli<Array<{id: string}>>('template', 'list');
await program.run('sender', 'add', from, '--verified');
const {url} = await program.serve({MAILCTL_DESTINATIONS_FILE: destinations});

const agent = new Agent({keepAlive: true, maxSockets: 1});

async function route(): Promise<Settings> {
	if (options.by === 'relay') {
		return {
			MAILCTL_DELIVERY: 'relay',
			MAILCTL_RELAY_URL: `smtp://${mx.host}:${mx.port}?tls=none`,
			MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
		};
	}
	const dns = await startFakeDns(scope, {'a.example': {mx: [[10, 'mx.example']]}, 'mx.example': {a: [mx.host]}});
	return {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
	};
}

async function send(n: number): Promise<void> {
	const body = JSON.stringify({from, to: `user${n}@a.example`, templateId: template?.id, data: {name: 'Ada'}});
	const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': body.length};
	marks.began = performance.now();
	const asked = request(`${url}/v1/messages`, {method: 'POST', headers, agent});
	asked.end(body);
	const [answer] = await once(asked, 'response');
	marks.answered = performance.now();
	answer.resume();
	if (answer.statusCode !== 202) {
		throw new Error(`The API answered ${answer.statusCode}.`);
	}
}

const steps = {'POST to 202': [] as number[], 'POST to MAIL': [] as number[], 'POST to 250': [] as number[]};
for (let n = 0; n < warm + messages; n++) {
	await send(n);
	await waitFor('the mail', () => mx.count() > n);
	if (n >= warm) {
		steps['POST to 202'].push(marks.answered - marks.began);
		steps['POST to MAIL'].push(marks.mail - marks.began);
		steps['POST to 250'].push(marks.accepted - marks.began);
	}
	await wait(restMs);
}

console.log(`${messages} messages one after the other by ${options.by}, ${mx.connections.length} connections`);
for (const [name, figures] of Object.entries(steps)) {
	const sorted = figures.toSorted((a, b) => a - b);
	const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
	console.log(`${name.padEnd(14)} median ${at(0.5)}, p95 ${at(0.95)}, most ${at(1)} ms`);
}

agent.destroy();
for (const run of teardowns.reverse()) {
	await run();
}
process.exit();
