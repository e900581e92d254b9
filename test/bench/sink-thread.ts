import {type AddressInfo, createServer, type Socket} from 'node:net';
import {parentPort, workerData} from 'node:worker_threads';
import {monotonicMs} from '../../src/cli/bench/latency.ts';
import type {SinkThread} from '../../src/cli/bench/measures.ts';
import {ok, serveSession} from '../../src/cli/bench/sink-session.ts';
import type {Entry} from './books.ts';
import {reluctanceTo} from './replies.ts';

// Counts in shared memory the mails taken and the recipients refused for good; tells what it knows of each recipient
// when asked. Without a seed it takes all; with one its replies are those of replies.ts.

const {settled, host, port, seed} = workerData as SinkThread & {readonly seed?: number};
const entries = new Map<string, Entry>();

function serve(socket: Socket): void {
	/** Whose mail may come. */
	let recipient: Entry | null = null;
	serveSession(socket, {rcpt, onMessage: taken});

	function taken(): void {
		const entry = recipient as Entry;
		entry.taken++;
		entry.at ||= monotonicMs();
		Atomics.add(settled, 0, 1);
	}

	function rcpt(address: string): string {
		const entry = entries.get(address) ?? {address, tries: 0, taken: 0, at: 0};
		entries.set(address, entry);
		entry.tries++;
		const met = seed === undefined ? undefined : reluctanceTo(address, seed);
		recipient = met && entry.tries <= met.tries ? null : entry;
		if (recipient === null && met?.reply.startsWith('5') && entry.at === 0) {
			entry.at = monotonicMs();
			Atomics.add(settled, 0, 1);
		}
		return recipient ? ok : (met?.reply ?? '');
	}
}

parentPort?.on('message', () => parentPort?.postMessage([...entries.values()]));
const server = createServer(serve).listen(port, host, () => {
	parentPort?.postMessage((server.address() as AddressInfo).port);
});
