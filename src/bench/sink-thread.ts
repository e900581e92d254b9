import {type AddressInfo, createServer, type Socket} from 'node:net';
import {parentPort, workerData} from 'node:worker_threads';

// As much of SMTP (RFC 5321) as a client needs that pipelines (RFC 2920). It counts mails in shared memory.

const {taken, host, port} = workerData as {taken: Int32Array; host: string; port: number};
const endOfMail = Buffer.from('\r\n.\r\n');
const replies: Readonly<Record<string, string>> = {
	EHLO: '250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 52428800\r\n',
	DATA: '354 Go on\r\n',
	QUIT: '221 Bye\r\n',
};

function serve(socket: Socket): void {
	let isData = false;
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
				Atomics.add(taken, 0, 1);
				isData = false;
				answer += '250 2.0.0 Taken\r\n';
			} else {
				const verb = bytes.toString('latin1', at, Math.min(end, at + 4)).toUpperCase();
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

const server = createServer(serve).listen(port, host, () => {
	parentPort?.postMessage((server.address() as AddressInfo).port);
});
