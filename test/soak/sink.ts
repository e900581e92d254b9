import {createServer, type Server, type Socket} from 'node:net';
import {parentPort, workerData} from 'node:worker_threads';
import {type Again, countOf, type News, newsEveryMs, now, type Tally} from './tally.ts';

// A thread with mail hosts that take every mail, keep none, and note which one came when. As much of SMTP (RFC 5321) as
// a client needs that pipelines (RFC 2920).

export type SinkData = {readonly tally: Tally; readonly hosts: readonly string[]; readonly port: number};

/** A host goes, or comes back. */
export type SinkOrder = {readonly host: string; readonly isDead: boolean};

const {tally, hosts, port} = workerData as SinkData;
const {sentAt, arrivals, arrivedAt, counts} = tally;
const endOfMail = Buffer.from('\r\n.\r\n');
const replies: Readonly<Record<string, string>> = {
	EHLO: '250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 52428800\r\n',
	DATA: '354 Go on\r\n',
	QUIT: '221 Bye\r\n',
};
const recipient = /^RCPT TO:<user(\d+)@/i;
const servers = new Map<string, Server>();
let latencies: number[] = [];
let again: Again[] = [];

function arrived(number: number): void {
	const at = now();
	if (Atomics.add(arrivals, number, 1) === 0) {
		arrivedAt[number] = at;
		Atomics.add(counts, countOf.arrived, 1);
		latencies.push(at - (sentAt[number] as number));
	} else {
		Atomics.add(counts, countOf.again, 1);
		again.push({number, first: arrivedAt[number] as number, at});
	}
}

function serve(socket: Socket, host: string): void {
	let isData = false;
	let number = -1;
	let rest: Buffer = Buffer.alloc(0);
	socket.setNoDelay(true);
	socket.on('error', () => socket.destroy());
	socket.write('220 sink ESMTP\r\n');
	socket.on('data', chunk => {
		const bytes = Buffer.concat([rest, chunk]);
		let at = 0;
		let answer = '';
		for (;;) {
			const mark = isData ? endOfMail : '\r\n';
			const end = bytes.indexOf(mark, at);
			if (end === -1) {
				break;
			}
			if (isData) {
				arrived(number);
				isData = false;
				answer += '250 2.0.0 Taken\r\n';
			} else if (!servers.has(host)) {
				socket.end(`${answer}421 4.3.2 Going down\r\n`);
				return;
			} else {
				const line = bytes.toString('latin1', at, end);
				const verb = line.slice(0, 4).toUpperCase();
				number = Number(recipient.exec(line)?.[1] ?? number);
				isData = verb === 'DATA';
				answer += replies[verb] ?? '250 2.0.0 Ok\r\n';
			}
			at = end + mark.length;
		}
		// Of a mail only what may be the beginning of its end.
		rest = bytes.subarray(isData ? Math.max(at, bytes.length - endOfMail.length + 1) : at);
		if (answer !== '') {
			socket.write(answer);
		}
		if (answer.endsWith(replies.QUIT as string)) {
			socket.end();
		}
	});
}

async function open(host: string): Promise<void> {
	const server = createServer(socket => serve(socket, host));
	servers.set(host, server);
	await new Promise<void>((resolve, reject) => {
		server.once('error', reject).listen(port, host, resolve);
	});
}

parentPort?.on('message', ({host, isDead}: SinkOrder) => {
	if (isDead) {
		servers.get(host)?.close();
		servers.delete(host);
	} else {
		void open(host);
	}
});
await Promise.all(hosts.map(open));
setInterval(() => {
	parentPort?.postMessage({latencies, again} satisfies News);
	[latencies, again] = [[], []];
}, newsEveryMs);
