import {execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import {parseArgs} from 'node:util';
import {storeTime} from '../../src/kit/time.ts';
import {webhookBody} from '../../src/mail/webhook.ts';
import {insertDeliveries, type NewDelivery} from '../../src/resources/webhooks/store.ts';
import {openStore} from '../../src/store/store.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {newId} from '../helpers/messages.ts';
import {call} from '../helpers/shop.ts';
import {
	addEndpoints,
	delaysOf,
	healthyArrivals,
	recordedAt,
	residentOf,
	sendPaced,
	startReceivers,
} from '../helpers/webhook-load.ts';

// Events to many endpoints of the real program, some of them dead and some slow (9 s an answer): node
// dist/test/bench/webhooks.js [--events N] [--per-second N] [--healthy N] [--slow N] [--dead N] [--cpu-prof FOLDER] Or
// so many that wait at the start, for endpoints that all answer: --pending 20000 --healthy 4

const {values: options} = parseArgs({
	options: {
		events: {type: 'string', default: '600'},
		'per-second': {type: 'string', default: '10'},
		pending: {type: 'string'},
		healthy: {type: 'string', default: '160'},
		slow: {type: 'string', default: '20'},
		dead: {type: 'string', default: '20'},
		'cpu-prof': {type: 'string'},
	},
});
const [events, perSecond] = [Number(options.events), Number(options['per-second'])];
const pending = Number(options.pending ?? 0);
const others = pending > 0 ? {slow: 0, dead: 0} : {slow: Number(options.slow), dead: Number(options.dead)};
const counts = {healthy: Number(options.healthy), ...others};
const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-bench-'));
const dataDir = path.join(folder, 'data');
const deadHost = loopbackAddress();
const certificate = makeCertificate('127.0.0.1', deadHost);
writeFileSync(path.join(folder, 'ca.pem'), certificate.cert);
const env = {
	...process.env,
	MAILCTL_DATA_DIR: dataDir,
	MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
	MAILCTL_RATE_LIMIT: '0',
	MAILCTL_LOG_LEVEL: 'error',
	MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
	MAILCTL_WEBHOOK_CA_FILE: path.join(folder, 'ca.pem'),
	MAILCTL_WEBHOOK_BACKOFF: '1s',
};
const program = path.resolve('bin/mailctl.js');
const cli = <T>(...args: string[]): T =>
	JSON.parse(execFileSync(process.execPath, [program, ...args, '--json'], {env}).toString());

execFileSync(process.execPath, [program, 'init'], {env, stdio: 'ignore'});
const {key} = cli<{key: string}>('key', 'create', '--name', 'bench');
const [template] = cli<Array<{id: string}>>('template', 'list');
const receivers = await startReceivers(certificate);
const endpoints = await addEndpoints(dataDir, counts, {port: receivers.port, deadHost});
const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
if (pending > 0) {
	await store.writer.transaction(trx => insertDeliveries(trx, waiting()));
}

const profile = options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${options['cpu-prof']}`] : [];
const child = spawn(process.execPath, [...profile, program, 'serve'], {env, stdio: ['ignore', 'ignore', 'inherit']});
const ready = path.join(dataDir, 'daemon.json');
while (!existsSync(ready)) {
	await wait(50);
}
const {http: url} = JSON.parse(readFileSync(ready, 'utf8')) as {http: string};
const cpuMs = () => {
	const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
	return 10 * (Number(stat[11]) + Number(stat[12]));
};

/** An event for each endpoint in turn, as it stands in the outbox. */
function waiting(): NewDelivery[] {
	const now = storeTime(Date.now());
	return Array.from({length: pending}, (_, index) => {
		const about = {messageId: newId('msg'), workspaceId: newId('ws'), recipient: 'ada@a.example'};
		const event = {...about, id: newId('evt'), type: 'delivered', occurredAt: now, detail: {}} as const;
		return {
			id: newId('whd'),
			workspaceId: event.workspaceId,
			endpointId: endpoints.healthy[index % counts.healthy] as string,
			messageId: event.messageId,
			eventId: event.id,
			eventType: event.type,
			body: webhookBody(
				event,
				{metadata: '{"order":"4711"}', tags: null, templateId: newId('tpl'), subject: null},
				'default',
			),
			dueAt: now,
			createdAt: now,
		};
	});
}

async function measurePending(): Promise<void> {
	const left = async () => Number((await store.reader('webhook_queue').count('* as n'))[0]?.n);
	const [cpuBefore, begun, before] = [cpuMs(), performance.now(), await left()];
	while ((await left()) > 0) {
		await wait(100);
	}
	const seconds = (performance.now() - begun) / 1000;
	const each = (1000 * (cpuMs() - cpuBefore)) / before;
	console.log(
		`${pending} waiting for ${counts.healthy} endpoints: ${Math.round(before / seconds)}/s signed and recorded, ${each.toFixed(0)} µs CPU each, ${residentOf(child.pid ?? 0).toFixed(0)} MB`,
	);
}

async function measureEvents(): Promise<void> {
	const [cpuBefore, begun] = [cpuMs(), performance.now()];
	const message = {from: 'hello@example.com', to: 'delivered@simulator.test', templateId: template?.id};
	const sent = await sendPaced(
		async () => ((await call(`${url}/v1/messages`, key, message)).body as {id: string}).id,
		{
			events,
			perSecond,
		},
	);
	const sending = performance.now() - begun;
	const recorded = await recordedAt(store, sent);
	const arrivals = await healthyArrivals(receivers, counts.healthy, events);
	const attempts = Number((await store.reader('webhook_attempts').count('* as n'))[0]?.n);
	const perAttempt = (1000 * (cpuMs() - cpuBefore)) / attempts;
	console.log(
		`${events} events in ${Math.round(sending)} ms to ${counts.healthy} endpoints that answer, ${counts.slow} slow, ${counts.dead} dead`,
	);
	console.log(`after the record: ${delaysOf(arrivals, recorded).text} ms`);
	console.log(
		`${attempts} attempts, ${Math.round((1000 * attempts) / (performance.now() - begun))}/s, ${perAttempt.toFixed(0)} µs CPU/attempt, ${residentOf(child.pid ?? 0).toFixed(0)} MB`,
	);
}

await (pending > 0 ? measurePending() : measureEvents());
await store.close();
receivers.stop();
child.kill('SIGTERM');
await new Promise(resolve => child.on('exit', resolve));
rmSync(folder, {recursive: true});
