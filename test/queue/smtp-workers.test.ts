import {randomBytes} from 'node:crypto';
import {once} from 'node:events';
import path from 'node:path';
import {Worker} from 'node:worker_threads';
import test, {type ExecutionContext} from 'ava';
import type {SmtpWorkerData} from '../../src/daemon/threads/smtp-worker.ts';
import type {Delivery} from '../../src/deliver/transaction.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {smtpTimeoutDefaults} from '../../src/net/smtp-timeouts.ts';
import {SmtpWorkers} from '../../src/queue/smtp-workers.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {bounceRules} from '../helpers/classify.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {plainTerms} from '../helpers/delivery-lab.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {newId} from '../helpers/messages.ts';
import {waitFor} from '../helpers/wait.ts';

const delivery = (recipientId = newId('rcp')): Delivery => ({
	recipientId,
	workspaceId: 'ws_1',
	destination: 'a.test',
	envelope: {from: 'b@x.test', to: 'a@a.test', smtputf8: false},
	ref: 'r',
	terms: plainTerms,
	data: new Uint8Array(randomBytes(100)),
	attempt: 1,
	endsAt: Number.POSITIVE_INFINITY,
	isSimulated: false,
	wasNxdomain: false,
	hadNoAddress: false,
});

async function start(
	t: ExecutionContext,
	broken: () => boolean = () => false,
	more: Partial<SmtpWorkerData> & Pick<SmtpWorkerData, 'dnsServers'> = {dnsServers: []},
) {
	const folder = path.join(await temporaryFolder(t), 'captured');
	const crashes: string[] = [];
	const started: Worker[] = [];
	const workerData: SmtpWorkerData = {
		mode: {kind: 'capture', folder},
		hostname: 'mail.example.com',
		timeouts: smtpTimeoutDefaults,
		attemptDeadlineMs: 60_000,
		maxSessions: 2,
		allowPrivateMx: false,
		dane: false,
		providerHosts: [],
		userAgent: 'test',
		time: new SharedArrayBuffer(8),
		bounceRules,
		...more,
	};
	const workers = new SmtpWorkers<Delivery>({
		silent: () => undefined,
		count: 1,
		// No thread has lived long: it is replaced after a pause, however slowly it started.
		clock: {...systemClock, monotonic: () => 0},
		observer: {workerEnded: reason => crashes.push(reason)},
		spawn() {
			const file = broken() ? './broken-thread.js' : '../../src/daemon/threads/smtp-worker.js';
			const worker = new Worker(new URL(file, import.meta.url), {workerData});
			started.push(worker);
			return worker;
		},
	});
	t.teardown(() => workers.stop());
	return {workers, crashes, started};
}

test('fails only the recipient that causes an error in a sender thread', async t => {
	const {workers, crashes} = await start(t);
	const [bad, good] = await Promise.allSettled([
		workers.deliver('a.test', 5, delivery('no id')),
		workers.deliver('a.test', 5, delivery()),
	]);
	t.is(bad?.status, 'rejected');
	t.is(good?.status === 'fulfilled' && good.value.outcome.kind, 'delivered');
	t.deepEqual(crashes, []);
});

test('rejects what a sender thread held when it died, and continues with another thread', async t => {
	const {workers, started} = await start(t);
	const held = workers.deliver('a.test', 5, delivery());
	const [first] = started as [Worker];
	const died = once(first, 'exit');
	// On most machines this is before it can have replied; the next message waits for its end in any case.
	setImmediate(() => void first.terminate());
	await held.catch(() => undefined);
	await died;
	const {outcome} = await workers.deliver('a.test', 5, delivery());
	t.is(outcome.kind, 'delivered');
});

test('waits for a sender thread that cannot start, and restarts it after a delay', async t => {
	let broken = true;
	const {workers, started, crashes} = await start(t, () => broken);
	const waiting = workers.deliver('a.test', 5, delivery());
	await waitFor('the end of the first', () => crashes.length === 1);
	t.is(started.length, 1);
	broken = false;
	const {outcome} = await waiting;
	t.is(outcome.kind, 'delivered');
	t.is(started.length, 2);
});

test('RFC 5321 section 4.1.1.10: a sender thread sends QUIT before it ends', async t => {
	const tls = makeCertificate('mx.a.test');
	const mx = await startFakeMx(t, {host: loopbackAddress(), tls});
	const dns = await startFakeDns(t, {'a.test': {mx: [[10, 'mx.a.test']]}, 'mx.a.test': {a: [mx.host]}});
	const {workers} = await start(t, undefined, {
		mode: {kind: 'hosts', port: mx.port},
		allowPrivateMx: true,
		dnsServers: [dns.server],
	});
	const {outcome} = await workers.deliver('a.test', 5, delivery());
	t.is(outcome.kind, 'delivered');
	await workers.stop();
	t.is(mx.connections[0]?.commands.at(-1), 'QUIT');
});

test('closes the connections of threads without a share in a provider’s connections', async t => {
	const told: number[] = [];
	const ready = new Set<Worker>();
	const workers = new SmtpWorkers<Delivery>({
		silent: () => undefined,
		count: 4,
		clock: systemClock,
		observer: {workerEnded: reason => t.fail(reason)},
		spawn() {
			const worker = new Worker(
				`const {parentPort} = require('node:worker_threads');
				parentPort.on('message', calls => {
					for (const {name, args} of calls) {
						if (name === 'close') process.exit();
						if (name !== 'allow') continue;
						parentPort.postMessage({ids: [], results: [], errors: [], events: [args[0][0][1]]});
					}
				});
				parentPort.postMessage('ready');`,
				{eval: true},
			);
			worker.on('message', message => {
				ready.add(worker);
				told.push(...(message === 'ready' ? [] : [message.events[0]]));
			});
			return worker;
		},
	});
	t.teardown(() => workers.stop());
	for (let n = 0; n < 4; n++) {
		void workers.deliver('b.test', 8, delivery()).catch(() => undefined);
	}
	await waitFor('the threads', () => ready.size === 4);
	for (const [connections, shares] of [
		[1, [0, 0, 0, 1]],
		[3, [0, 1, 1, 1]],
		[8, [2, 2, 2, 2]],
		[0, [0, 0, 0, 0]],
	] as const) {
		told.length = 0;
		workers.allow('a.test', connections);
		await waitFor('their answers', () => told.length === 4);
		t.deepEqual(told.toSorted(), shares);
	}
});
