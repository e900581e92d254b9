import {createConnection} from 'node:net';

// A load generator in a process of its own: keep-alive HTTP/1.1 by hand, so that it takes little of the machine it measures.

export type LoadOrder = {
	readonly host: string;
	readonly port: number;
	readonly key: string;
	/** The body of a send; `{n}` becomes the number of the message. */
	readonly body: string;
	readonly messages: number;
	readonly connections: number;
};

export type LoadReport = {
	/** Milliseconds from the first request to the last answer. */
	readonly ms: number;
	readonly accepted: number;
	readonly refused: number;
	/** Of single requests, milliseconds. */
	readonly p50: number;
	readonly p99: number;
};

async function run(order: LoadOrder): Promise<LoadReport> {
	const latencies: number[] = [];
	let next = 0;
	let accepted = 0;
	const begun = performance.now();

	await Promise.all(
		Array.from(
			{length: order.connections},
			() =>
				new Promise<void>((resolve, reject) => {
					const socket = createConnection(order.port, order.host);
					socket.setNoDelay(true);
					let sentAt = 0;
					let received = '';
					const send = () => {
						if (next === order.messages) {
							socket.end();
							resolve();
							return;
						}
						const body = order.body.replaceAll('{n}', String(next++));
						sentAt = performance.now();
						socket.write(
							`POST /v1/messages HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${order.key}\r\n` +
								`content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
						);
					};
					socket.on('connect', send).on('error', reject);
					socket.on('data', chunk => {
						received += chunk.toString('latin1');
						const head = received.indexOf('\r\n\r\n');
						const length = /content-length: (\d+)/i.exec(received)?.[1];
						if (head === -1 || length === undefined || received.length < head + 4 + Number(length)) {
							return;
						}
						latencies.push(performance.now() - sentAt);
						accepted += received.startsWith('HTTP/1.1 202') ? 1 : 0;
						received = '';
						send();
					});
				}),
		),
	);

	latencies.sort((a, b) => a - b);
	const at = (share: number) => latencies[Math.floor((latencies.length - 1) * share)] ?? 0;
	return {
		ms: performance.now() - begun,
		accepted,
		refused: order.messages - accepted,
		p50: at(0.5),
		p99: at(0.99),
	};
}

process.on('message', async (order: LoadOrder) => {
	process.send?.(await run(order));
});
