import {type AddressInfo, createServer, type Socket} from 'node:net';
import {parentPort, workerData} from 'node:worker_threads';
import {type Entry, monotonicMs} from './books.ts';
import type {SinkAt} from './measures.ts';
import {reluctanceTo} from './replies.ts';

// As much of SMTP (RFC 5321) as a client needs that pipelines (RFC 2920). It counts in shared memory the mails taken and the
// recipients refused for good; what it knows of each recipient it tells when asked. Without a seed it takes all.

const {settled, host, port, seed} = workerData as SinkAt & {readonly settled: Int32Array};
const entries = new Map<string, Entry>();
const endOfMail = Buffer.from('\r\n.\r\n');
const ok = '250 2.0.0 Ok\r\n';
const replies: Readonly<Record<string, string>> = {
	DATA: '503 5.5.1 No recipient\r\n',
	EHLO: '250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 52428800\r\n',
	QUIT: '221 Bye\r\n',
};
/** After one of these, and after silence, the sink reads no more. */
const lastOnes = /^(?:221|421)/m;

function serve(socket: Socket): void {
	let isData = false;
	let isOver = false;
	/** Whose mail may come. */
	let recipient: Entry | null = null;
	let rest: Buffer = Buffer.alloc(0);
	socket.setNoDelay(true);
	socket.on('error', () => socket.destroy());
	socket.write('220 sink ESMTP\r\n');
	socket.on('data', chunk => {
		const bytes = Buffer.concat([rest, chunk]);
		let at = 0;
		let answer = '';
		while (!isOver) {
			const mark = isData ? endOfMail : '\r\n';
			const end = bytes.indexOf(mark, at);
			if (end === -1) {
				break;
			}
			const reply = isData ? taken() : replyTo(bytes.toString('latin1', at, end));
			answer += reply ?? '';
			isOver = reply === null || lastOnes.test(reply);
			at = end + mark.length;
		}
		// Of a mail only what may be the beginning of its end.
		rest = bytes.subarray(isData ? Math.max(at, bytes.length - endOfMail.length + 1) : at);
		if (answer !== '') {
			socket.write(answer);
		}
		if (lastOnes.test(answer)) {
			socket.end();
		}
	});

	function taken(): string {
		const entry = recipient as Entry;
		entry.taken++;
		entry.at ||= monotonicMs();
		Atomics.add(settled, 0, 1);
		isData = false;
		return '250 2.0.0 Taken\r\n';
	}

	/** Null is silence. */
	function replyTo(line: string): string | null {
		const verb = line.slice(0, 4).toUpperCase();
		isData = verb === 'DATA' && recipient !== null;
		return isData ? '354 Go on\r\n' : verb === 'RCPT' ? meet(line) : (replies[verb] ?? ok);
	}

	function meet(line: string): string | null {
		const address = line.slice(line.indexOf('<') + 1, line.indexOf('>'));
		const entry = entries.get(address) ?? {address, tries: 0, taken: 0, at: 0};
		entries.set(address, entry);
		entry.tries++;
		const met = seed === undefined ? undefined : reluctanceTo(address, seed);
		recipient = met && entry.tries <= met.tries ? null : entry;
		if (recipient === null && met?.reply?.startsWith('5') && entry.at === 0) {
			entry.at = monotonicMs();
			Atomics.add(settled, 0, 1);
		}
		return recipient ? ok : (met?.reply ?? null);
	}
}

parentPort?.on('message', () => parentPort?.postMessage([...entries.values()]));
const server = createServer(serve).listen(port, host, () => {
	parentPort?.postMessage((server.address() as AddressInfo).port);
});
