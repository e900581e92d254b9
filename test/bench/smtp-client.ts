import {fork} from 'node:child_process';
import {once} from 'node:events';
import {connect} from 'node:net';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import {loadBounceRules} from '../../src/config/bounce-rules.ts';
import {Deliverer} from '../../src/deliver/deliverer.ts';
import {postmarkMail} from '../../src/inbound/providers/postmark-mail.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createClassify} from '../../src/mail/classify-reply.ts';
import {ProviderClient} from '../../src/net/provider-client.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {smtpTimeoutDefaults} from '../../src/net/smtp-timeouts.ts';

// Transactions a second on one reused connection to a trivial sink in another process: ours and nodemailer's.
// node dist/test/bench/smtp-client.js [transactions]

const transactions = Number(process.argv[2] ?? 10_000);
const data = Buffer.from(`Subject: bench\r\n\r\n${`${'x'.repeat(74)}\r\n`.repeat(200)}`);
const sink = fork(new URL('./smtp-sink.js', import.meta.url));
const [port] = (await once(sink, 'message')) as [number];

/** Runs the transactions over so many at once. */
async function measure(name: string, width: number, once: (queue: number) => Promise<void>): Promise<void> {
	let left = 500;
	const queue = async (_: unknown, n: number) => {
		while (left-- > 0) {
			await once(n);
		}
	};
	await Promise.all(Array.from({length: width}, queue));
	left = transactions;
	const cpu = process.cpuUsage();
	const begun = performance.now();
	await Promise.all(Array.from({length: width}, queue));
	const seconds = (performance.now() - begun) / 1000;
	const {user, system} = process.cpuUsage(cpu);
	const each = ((user + system) / transactions).toFixed(0);
	console.log(
		`${name}, ${width} sessions: ${Math.round(transactions / seconds)} a second, ${each} µs CPU of the client each`,
	);
}

const resolver = createResolver({servers: [], timeoutMs: 5000, tries: 2, clock: systemClock});
const client = new ProviderClient({resolver, standIns: new Map(), userAgent: 'bench', limitMs: 60_000});
const deliverer = new Deliverer({
	mode: {kind: 'hosts', port},
	hostname: 'bench.test',
	timeouts: smtpTimeoutDefaults,
	attemptDeadlineMs: 1_200_000,
	maxSessions: 64,
	allowPrivateMx: true,
	classify: createClassify(loadBounceRules({bounceRulesFile: null})),
	resolver,
	apis: {client, postmarkMail},
	clock: systemClock,
});
const envelope = {from: 'bounce@bench.test', to: 'user@example.test', smtputf8: false};
const relay = {host: '127.0.0.1', port, secure: false, tls: 'none', user: null, password: null} as const;
const terms = {
	nextHop: {kind: 'relay', relays: [relay], acceptMeans: 'sent'},
	tls: 'opportunistic',
	mtaSts: null,
	sources: [],
	mailsPerSession: 1_000_000,
} as const;
const recipientId = 'rcp';
const job = {
	recipientId,
	destination: 'example.test',
	envelope,
	ref: 'ref',
	terms,
	data,
	workspaceId: 'ws_1',
	attempt: 1,
	endsAt: Number.POSITIVE_INFINITY,
	isSimulated: false,
};

async function ours(width: number): Promise<void> {
	const {outcome} = await deliverer.deliver('relay', width, job);
	if (outcome.kind !== 'relayed') {
		throw new Error(JSON.stringify(outcome));
	}
}

async function openTheirs(): Promise<SMTPConnection> {
	const socket = connect({host: '127.0.0.1', port, noDelay: true});
	await once(socket, 'connect');
	const connection = new SMTPConnection({connection: socket, host: '127.0.0.1', ignoreTLS: true, name: 'bench.test'});
	await new Promise<void>((resolve, reject) => {
		connection.connect(error => (error ? reject(error) : resolve()));
	});
	return connection;
}

function send(connection: SMTPConnection): Promise<void> {
	return new Promise((resolve, reject) => {
		connection.send({from: envelope.from, to: [envelope.to]}, data, error => (error ? reject(error) : resolve()));
	});
}

for (const width of [1, 4, 20]) {
	const theirs = await Promise.all(Array.from({length: width}, openTheirs));
	for (let round = 0; round < 2; round++) {
		await measure('ours      ', width, () => ours(width));
		await measure('nodemailer', width, queue => send(theirs[queue] as SMTPConnection));
	}

	for (const connection of theirs) {
		connection.close();
	}
}

await deliverer.close();
sink.kill();
