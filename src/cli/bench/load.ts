import {createConnection} from 'node:net';
import {monotonicMs, percentiles} from './latency.ts';

// A load generator in its own process. It speaks keep-alive HTTP/1.1 itself, to use as little as possible of the
// machine that it measures.

export type LoadJob = {
	readonly host: string;
	readonly port: number;
	readonly key: string;
	/** The JSON of a send; `{n}` is replaced by the number of the message, `{d}` by that of its domain. */
	readonly send: string;
	readonly domains: number;
	/** The number of sends per request; with 1, the batch route is not used. */
	readonly perRequest: number;
	readonly messages: number;
	readonly connections: number;
};

export type LoadReport = {
	/** Milliseconds from the first request to the last response. */
	readonly ms: number;
	readonly accepted: number;
	readonly refused: number;
	/** Latency percentiles of the requests. */
	readonly latency: Readonly<Record<string, number>>;
	/** When the request of each message was sent, by `monotonicMs`. */
	readonly sent: readonly number[];
};

/** Matches the head of a complete response and captures its status and the length of its body. */
const completeResponse = /^HTTP\/1\.1 (\d+)[\s\S]*?\r\ncontent-length: (\d+)\r\n[\s\S]*?\r\n\r\n/i;

async function run(order: LoadJob): Promise<LoadReport> {
	const {perRequest, messages, domains} = order;
	const latencies: number[] = [];
	const sent: number[] = [];
	let next = 0;
	let accepted = 0;
	const startedAt = performance.now();
	const renderSend = (n: number) => order.send.replaceAll('{n}', String(n)).replaceAll('{d}', String(n % domains));

	function renderRequest(sentAt: number): string {
		const count = Math.min(perRequest, messages - next);
		const sends = Array.from({length: count}, () => renderSend(next++));
		sent.push(...sends.map(() => sentAt));
		const body = perRequest === 1 ? (sends[0] as string) : `{"messages":[${sends.join(',')}]}`;
		return (
			`POST /v1/messages${perRequest === 1 ? '' : '/batch'} HTTP/1.1\r\nhost: bench\r\n` +
			`authorization: Bearer ${order.key}\r\ncontent-type: application/json\r\n` +
			`content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
		);
	}

	await Promise.all(
		Array.from({length: order.connections}, () =>
			sendRequests(
				order,
				sentAt => (next < messages ? renderRequest(sentAt) : null),
				(latency, status, body) => {
					latencies.push(latency);
					accepted +=
						perRequest === 1 ? Number(status === '202') : body.split('"status":"accepted"').length - 1;
				},
			),
		),
	);

	return {
		ms: performance.now() - startedAt,
		accepted,
		refused: messages - accepted,
		latency: percentiles(latencies),
		sent,
	};
}

/** Sends requests over one connection, each after the response to the previous one, until `nextRequest` has no more. */
function sendRequests(
	{host, port}: LoadJob,
	nextRequest: (sentAt: number) => string | null,
	onResponse: (latency: number, status: string, body: string) => void,
): Promise<void> {
	return new Promise((resolve, reject) => {
		const socket = createConnection(port, host);
		socket.setNoDelay(true);
		let sentAt = 0;
		let received = '';
		const send = () => {
			sentAt = monotonicMs();
			const request = nextRequest(sentAt);
			if (request === null) {
				socket.end();
				resolve();
			} else {
				socket.write(request);
			}
		};
		socket.on('connect', send).on('error', reject);
		socket.on('data', chunk => {
			received += chunk.toString('latin1');
			const [head = '', status = '', length] = completeResponse.exec(received) ?? [];
			if (length === undefined || received.length < head.length + Number(length)) {
				return;
			}
			onResponse(monotonicMs() - sentAt, status, received.slice(head.length));
			received = '';
			send();
		});
	});
}

process.on('message', async (order: LoadJob) => {
	process.send?.(await run(order));
});
