import {fork} from 'node:child_process';
import {once} from 'node:events';
import {connect} from 'node:net';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import {createDeliverer} from '../../src/deliver/deliverer.ts';
import {createResolver} from '../../src/deliver/resolver.ts';
import {defaultTimeouts} from '../../src/deliver/timeouts.ts';
import {systemClock} from '../../src/mail/clock.ts';

// Transactions a second on one reused connection to a trivial sink in another process: ours and nodemailer's.
// node dist/test/bench/smtp-client.js [transactions]

const transactions = Number(process.argv[2] ?? 10_000);
const data = Buffer.from(`Subject: bench\r\n\r\n${`${'x'.repeat(74)}\r\n`.repeat(200)}`);
const sink = fork(new URL('./smtp-sink.js', import.meta.url));
const [port] = (await once(sink, 'message')) as [number];

async function measure(name: string, once: () => Promise<void>): Promise<void> {
	for (let n = 0; n < 500; n++) {
		await once();
	}

	const cpu = process.cpuUsage();
	const begun = performance.now();
	for (let n = 0; n < transactions; n++) {
		await once();
	}

	const seconds = (performance.now() - begun) / 1000;
	const {user, system} = process.cpuUsage(cpu);
	const each = ((user + system) / transactions).toFixed(0);
	console.log(`${name}: ${Math.round(transactions / seconds)} a second, ${each} µs CPU of the client each`);
}

const deliverer = createDeliverer({
	mode: {
		kind: 'relay',
		relays: [{host: '127.0.0.1', port, tls: 'none', implicitTls: false, login: null}],
		acceptMeans: 'sent',
	},
	hostname: 'bench.test',
	timeouts: defaultTimeouts,
	attemptDeadlineMs: 1_200_000,
	maxSessions: 64,
	allowPrivateMx: true,
	mailsPerSession: 1_000_000,
	resolver: createResolver({servers: [], timeoutMs: 5000, tries: 2, clock: systemClock}),
	clock: systemClock,
	random: Math.random,
});
const envelope = {from: 'bounce@bench.test', to: 'user@example.test', smtputf8: false};
const job = {recipientId: 'rcp', destination: 'example.test', envelope, ref: 'ref', data, attempt: 1, simulated: false};

async function ours(): Promise<void> {
	const {outcome} = await deliverer.deliver('relay', 1, job);
	if (outcome.kind !== 'relayed') {
		throw new Error(JSON.stringify(outcome));
	}
}

const socket = connect({host: '127.0.0.1', port, noDelay: true});
await once(socket, 'connect');
const theirs = new SMTPConnection({connection: socket, host: '127.0.0.1', ignoreTLS: true, name: 'bench.test'});
await new Promise<void>((resolve, reject) => {
	theirs.connect(error => (error ? reject(error) : resolve()));
});

function nodemailers(): Promise<void> {
	return new Promise((resolve, reject) => {
		theirs.send({from: envelope.from, to: [envelope.to]}, data, error => (error ? reject(error) : resolve()));
	});
}

for (let round = 0; round < 3; round++) {
	await measure('ours       ', ours);
	await measure('nodemailer ', nodemailers);
}

for (const sessions of [4, 20]) {
	const begun = performance.now();
	let left = transactions;
	await Promise.all(
		Array.from({length: sessions}, async () => {
			while (left-- > 0) {
				const {outcome} = await deliverer.deliver('relay', sessions, job);
				if (outcome.kind !== 'relayed') {
					throw new Error(JSON.stringify(outcome));
				}
			}
		}),
	);
	console.log(
		`ours, ${sessions} sessions: ${Math.round(transactions / ((performance.now() - begun) / 1000))} a second`,
	);
}

await deliverer.close();
theirs.close();
sink.kill();
