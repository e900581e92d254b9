import {Agent, type IncomingMessage, request} from 'node:http';
import {parentPort, workerData} from 'node:worker_threads';
import {answers, countOf, type News, newsEveryMs, now, type Tally} from './tally.ts';

// A thread that sends: at a steady rate whatever the answers are, or as fast as mail arrives. A mail is sent once, by a
// request of its own.

export type LoadData = {
	readonly tally: Tally;
	readonly url: string;
	readonly key: string;
	/** The JSON of a send; `{n}` becomes the number of the mail, `{d}` that of its domain. */
	readonly send: string;
	readonly domains: number;
};

/** `ahead`: as fast as it goes, with at most so many that have not arrived. */
export type LoadOrder = {readonly perSecond: number} | {readonly ahead: number};

const {tally, url, key, send, domains} = workerData as LoadData;
const {sentAt, answer, counts} = tally;
const tickMs = 10;
const connections = 64;
/** Requests that wait for an answer, at most: a generator that queues more measures itself. */
const maxPending = 1000;
const answerMs = 60_000;
const agent = new Agent({keepAlive: true, maxSockets: connections});
let latencies: number[] = [];
let order: LoadOrder = {perSecond: 0};
let begun = now();
let due = 0;
let pending = 0;

function sendNext(): void {
	const number = Atomics.add(counts, countOf.sent, 1);
	const body = send.replaceAll('{n}', String(number)).replaceAll('{d}', String(number % domains));
	const headers = {
		authorization: `Bearer ${key}`,
		'content-type': 'application/json',
		'content-length': Buffer.byteLength(body),
	};
	pending++;
	sentAt[number] = now();
	const end = (what: keyof typeof answers) => {
		if (answer[number] === 0) {
			answer[number] = answers[what];
			Atomics.add(counts, countOf[what], 1);
			pending--;
		}
	};
	const asked = request(url, {method: 'POST', headers, agent, timeout: answerMs});
	asked
		.on('response', (response: IncomingMessage) => {
			if (response.statusCode === 202) {
				latencies.push(now() - (sentAt[number] as number));
			}
			end(response.statusCode === 202 ? 'accepted' : response.statusCode === 503 ? 'refused' : 'wrong');
			response.resume();
		})
		.on('error', (error: NodeJS.ErrnoException) => end(error.code === 'ECONNREFUSED' ? 'away' : 'unanswered'))
		.on('timeout', () => asked.destroy())
		.end(body);
}

function tick(): void {
	if ('ahead' in order) {
		const waiting = () => (counts[countOf.accepted] as number) - (counts[countOf.arrived] as number);
		while (pending < connections && waiting() + pending < order.ahead) {
			sendNext();
		}
		return;
	}
	for (const wanted = ((now() - begun) * order.perSecond) / 1000; due < wanted; due++) {
		if (pending < maxPending) {
			sendNext();
		} else {
			Atomics.add(counts, countOf.late, 1);
		}
	}
}

parentPort?.on('message', (given: LoadOrder) => {
	[order, begun, due] = [given, now(), 0];
});
setInterval(tick, tickMs);
setInterval(() => {
	parentPort?.postMessage({latencies, again: []} satisfies News);
	latencies = [];
}, newsEveryMs);
