import {createConnection} from 'node:net';

// A load generator in a process of its own: brings bounces by SMTP as mail systems do, one after the other on each
// connection.

export type ReportOrder = {
	readonly port: number;
	readonly connections: number;
	/** Return paths with the addresses that the copies went to; each gets one report. */
	readonly recipients: ReadonlyArray<{readonly returnPath: string; readonly address: string}>;
	/** Reports a second in all; null: as fast as they are taken. */
	readonly perSecond: number | null;
};

export type ReportLoadEnd = {
	/** Milliseconds from the first command to the last reply. */
	readonly ms: number;
	readonly taken: number;
	/** Replies other than those that should come, at most ten. */
	readonly surprises: readonly string[];
	/** From MAIL to the 250 after the dot, milliseconds. */
	readonly p50: number;
	readonly p99: number;
};

/** A bounce as Postfix writes it (RFC 3464). */
export function bounceFor(returnPath: string, address: string, number: number): string {
	return [
		`Received: by mx.example.net (Postfix) id Q${number}; Sat, 21 Nov 2026 10:00:00 +0000 (UTC)`,
		'Date: Sat, 21 Nov 2026 10:00:00 +0000 (UTC)',
		'From: MAILER-DAEMON@mx.example.net (Mail Delivery System)',
		'Subject: Undelivered Mail Returned to Sender',
		`To: ${returnPath}`,
		'Auto-Submitted: auto-replied',
		'MIME-Version: 1.0',
		`Content-Type: multipart/report; report-type=delivery-status; boundary="Q${number}/mx.example.net"`,
		`Message-Id: <Q${number}@mx.example.net>`,
		'',
		'This is a MIME-encapsulated message.',
		'',
		`--Q${number}/mx.example.net`,
		'Content-Description: Notification',
		'Content-Type: text/plain; charset=us-ascii',
		'',
		'This is the mail system at host mx.example.net.',
		'',
		"I'm sorry to have to inform you that your message could not",
		"be delivered to one or more recipients. It's attached below.",
		'',
		`<${address}>: host imap.example.net[192.0.2.7] said: 550 5.1.1 <${address}>: Recipient`,
		'    address rejected: User unknown in virtual mailbox table (in reply to RCPT TO command)',
		'',
		`--Q${number}/mx.example.net`,
		'Content-Description: Delivery report',
		'Content-Type: message/delivery-status',
		'',
		'Reporting-MTA: dns; mx.example.net',
		`X-Postfix-Queue-ID: Q${number}`,
		'X-Postfix-Sender: rfc822; sender',
		'Arrival-Date: Sat, 21 Nov 2026 09:59:58 +0000 (UTC)',
		'',
		`Final-Recipient: rfc822; ${address}`,
		`Original-Recipient: rfc822;${address}`,
		'Action: failed',
		'Status: 5.1.1',
		'Remote-MTA: dns; imap.example.net',
		`Diagnostic-Code: smtp; 550 5.1.1 <${address}>: Recipient address rejected: User unknown in virtual mailbox table`,
		'',
		`--Q${number}/mx.example.net`,
		'Content-Description: Undelivered Message Headers',
		'Content-Type: text/rfc822-headers',
		'',
		`Return-Path: <${returnPath}>`,
		'From: Shop <a@shop.example>',
		`To: <${address}>`,
		'Subject: Your receipt',
		`X-Filler: ${'x'.repeat(900)}`,
		'',
		`--Q${number}/mx.example.net--`,
		'',
	].join('\r\n');
}

async function run({port, connections, recipients, perSecond}: ReportOrder): Promise<ReportLoadEnd> {
	const latencies: number[] = [];
	const surprises: string[] = [];
	let next = 0;
	let taken = 0;
	const begun = performance.now();

	function connection(): Promise<void> {
		return new Promise((resolve, reject) => {
			const socket = createConnection(port, '127.0.0.1');
			socket.setNoDelay(true);
			let received = '';
			let step = 0;
			let number = 0;
			let sentAt = 0;

			const begin = () => {
				if (next === recipients.length) {
					socket.write('QUIT\r\n');
					return;
				}
				number = next++;
				const wait = perSecond === null ? 0 : begun + (number * 1000) / perSecond - performance.now();
				if (wait > 1) {
					setTimeout(send, wait);
				} else {
					send();
				}
			};
			const send = () => {
				step = 2;
				sentAt = performance.now();
				socket.write('MAIL FROM:<>\r\n');
			};
			const steps = [
				() => socket.write('EHLO load.test\r\n'),
				begin,
				() => socket.write(`RCPT TO:<${recipients[number]?.returnPath}>\r\n`),
				() => socket.write('DATA\r\n'),
				() => {
					const recipient = recipients[number];
					socket.write(`${bounceFor(recipient?.returnPath ?? '', recipient?.address ?? '', number)}.\r\n`);
				},
				() => {
					latencies.push(performance.now() - sentAt);
					taken++;
					begin();
				},
			];
			const expected = ['220', '250', '250', '250', '354', '250'];

			socket.on('data', chunk => {
				received += chunk.toString('latin1');
				for (let end = received.indexOf('\n'); end !== -1; end = received.indexOf('\n')) {
					const line = received.slice(0, end);
					received = received.slice(end + 1);
					if (line[3] === '-') {
						continue;
					}
					if (line.startsWith('221')) {
						socket.end();
						resolve();
					} else if (line.startsWith(expected[step] ?? '')) {
						steps[step++]?.();
					} else {
						surprises.push(line);
						socket.destroy();
						reject(new Error(line));
					}
				}
			});
			socket.on('error', reject);
			socket.on('close', () => resolve());
		});
	}

	await Promise.all(
		Array.from({length: connections}, () => connection().catch((error: Error) => surprises.push(error.message))),
	);
	const ms = performance.now() - begun;
	latencies.sort((a, b) => a - b);
	const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
	return {ms, taken, surprises: surprises.slice(0, 10), p50: at(0.5), p99: at(0.99)};
}

process.on('message', (order: ReportOrder) => {
	void run(order).then(end => process.send?.(end));
});
