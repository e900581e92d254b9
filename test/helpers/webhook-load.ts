import {fork} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {setInterval as every} from 'node:timers/promises';
import {loadSecrets} from '../../src/config/secrets-file.ts';
import {storeTime} from '../../src/kit/time.ts';
import {insertEndpoint} from '../../src/resources/webhooks/store.ts';
import {createVault} from '../../src/store/sealed.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import type {Certificate} from './certificate.ts';
import {newId} from './messages.ts';
import {waitFor} from './wait.ts';
import type {Arrivals, Counts, FromReceivers, ToReceivers} from './webhook-receivers.ts';

export type EndpointCounts = {readonly healthy: number; readonly slow: number; readonly dead: number};

/** Starts a process with many endpoints; its slow ones take so long for an answer. */
export async function startReceivers(certificate: Certificate, slowMs = 9000) {
	const child = fork(new URL('./webhook-receivers.js', import.meta.url), {execArgv: []});
	const ask = async (message: ToReceivers): Promise<FromReceivers> => {
		const answer = once(child, 'message');
		child.send(message);
		return (await answer)[0] as FromReceivers;
	};
	const {port} = (await ask({...certificate, slowMs})) as {port: number};
	return {
		port,
		counts: async () => ((await ask('count')) as {counts: Counts}).counts,
		arrivals: async () => ((await ask('tell')) as {arrivals: Arrivals}).arrivals,
		stop: () => void child.kill(),
	};
}

export type Receivers = Awaited<ReturnType<typeof startReceivers>>;

/**
 * Puts endpoints into the store of a daemon that does not run: more than the API allows one workspace. Answers the ids
 * of each kind; the dead ones are at an address where nothing listens.
 */
export async function addEndpoints(
	dataDir: string,
	counts: EndpointCounts,
	{port, deadHost}: {readonly port: number; readonly deadHost: string},
): Promise<Record<keyof EndpointCounts, string[]>> {
	const store = await openStore({file: join(dataDir, 'mailctl.db')});
	const vault = createVault(loadSecrets({dataDir, isExpected: true}));
	const {id: workspaceId} = await store.reader('workspaces').first('id');
	const ids: Record<keyof EndpointCounts, string[]> = {healthy: [], slow: [], dead: []};
	const total = counts.healthy + counts.slow + counts.dead;
	await store.writer.transaction(async trx => {
		for (const kind of ['healthy', 'slow', 'dead'] as const) {
			for (let index = 0; index < counts[kind]; index++) {
				const id = newId('whe');
				const url = `https://${kind === 'dead' ? deadHost : '127.0.0.1'}:${port}/${kind}/${index}`;
				const secret = vault.seal(id, `whsec_${kind}_${index}`);
				const more = {disabledAt: null, failingSince: null, createdAt: storeTime(Date.now())};
				await insertEndpoint(
					trx,
					{
						id,
						workspaceId,
						mode: 'live',
						...{format: null, retry: null, disabledReason: null},
						previousSecret: null,
						previousUntil: null,
						url,
						events: ['delivered'],
						secret,
						...more,
					},
					total,
				);
				ids[kind].push(id);
			}
		}
	});
	await store.close();
	return ids;
}

/** Sends so many, at that rate; answers the message ids in their order. `onSent` is told how many there are. */
export async function sendPaced(
	send: () => Promise<string>,
	{events, perSecond, onSent}: {events: number; perSecond: number; onSent?: (sent: number) => void},
): Promise<string[]> {
	const sent: string[] = [];
	for await (const _ of every(1000 / perSecond)) {
		sent.push(await send());
		onSent?.(sent.length);
		if (sent.length === events) {
			break;
		}
	}
	return sent;
}

/** When the delivery of each message was recorded, once all are (milliseconds since the epoch). */
export async function recordedAt(store: Store, sent: readonly string[]): Promise<ReadonlyMap<string, number>> {
	const read = async () => {
		const rows = await store.reader('events').where({type: 'delivered'}).select('message_id', 'recorded_at');
		return rows.length === sent.length && new Map(rows.map(row => [row.message_id, Date.parse(row.recorded_at)]));
	};
	return await waitFor('every event is recorded', read);
}

/** What came to the healthy ones, once each has had so many. */
export async function healthyArrivals(receivers: Receivers, healthy: number, events: number): Promise<Arrivals> {
	const isHealthy = ([path]: readonly [path: string, ...rest: unknown[]]) => path.startsWith('/healthy');
	const haveAll = async () => {
		const came = Object.entries(await receivers.counts()).filter(isHealthy);
		return came.length === healthy && came.every(([, n]) => n >= events);
	};
	await waitFor('the healthy ones have everything', haveAll);
	return Object.fromEntries(Object.entries(await receivers.arrivals()).filter(isHealthy));
}

/**
 * From the record of an event to its arrival: the median, the 99th percentile and the longest, and those of each
 * second.
 */
export function delaysOf(arrivals: Arrivals, recorded: ReadonlyMap<string, number>) {
	const delays: number[] = [];
	const longest: number[] = [];
	const began = Math.min(...recorded.values());
	for (const [messageId, at] of Object.values(arrivals).flat()) {
		const from = recorded.get(messageId) ?? 0;
		const second = Math.floor((from - began) / 1000);
		delays.push(at - from);
		longest[second] = Math.max(longest[second] ?? 0, at - from);
	}
	delays.sort((a, b) => a - b);
	const part = (share: number) => delays[Math.floor((delays.length - 1) * share)] ?? 0;
	const figures = `median ${part(0.5)} ms, 99 % ${part(0.99)} ms, longest ${part(1)} ms of ${delays.length}`;
	return {
		longest: part(1),
		text: `${figures}; longest of each second: ${Array.from(longest, ms => ms ?? 0).join(' ')}`,
	};
}

/** Resident memory of a process, MB. */
export function residentOf(pid: number): number {
	return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
