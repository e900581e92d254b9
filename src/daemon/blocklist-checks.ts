import {isIP} from 'node:net';
import {loadBlocklists} from '../config/blocklists-file.ts';
import {sendingAddresses} from '../doctor/blocklists.ts';
import {repeated} from '../kit/clock.ts';
import {dayMs, hourMs, storeTime} from '../kit/time.ts';
import {askBlocklist, type Blocklist, delistLink, doesList, type Listing} from '../net/blocklist.ts';
import {createResolver} from '../net/resolver.ts';
import {listVerifiedDomains} from '../resources/domains/store.ts';
import {type Blocklisting, listBlocklistings, saveBlocklistings, staleMs} from '../store/blocklists.ts';
import type {Context} from './context.ts';

const lookMs = 60_000;
const answerMs = 5000;
/** Limits the queries of a minute if there are thousands of domains. */
const maxConcurrent = 256;

/** Checks this node's addresses, and domains that no other node checks, against the blocklists once an hour. */
export function watchBlocklists({
	store,
	clock,
	settings,
	observer,
}: Pick<Context, 'store' | 'clock' | 'settings'> & {readonly observer: Pick<Context['observer'], 'storeFailed'>}) {
	const lists = loadBlocklists(settings);
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: answerMs, tries: 1, clock});
	let isStopping = false;

	async function check(): Promise<void> {
		const now = clock.now();
		const known = new Map(
			(await listBlocklistings(store.reader, 0)).map(row => [`${row.source} ${row.zone}`, row]),
		);
		const due: Array<{readonly list: Blocklist; readonly row: Blocklisting}> = [];
		for (const source of new Set([...sendingAddresses(settings), ...(await listVerifiedDomains(store.reader))])) {
			for (const list of lists.filter(one => doesList(one, source))) {
				const key = `${source} ${list.zone}`;
				const before = known.get(key);
				known.delete(key);
				if (before === undefined || Math.abs(now - Date.parse(before.asked_at)) >= hourMs) {
					due.push({list, row: askedRow(source, list, before, storeTime(now))});
				}
			}
		}
		// Other nodes remove their own addresses.
		const isGone = ({source, asked_at: at}: Blocklisting) =>
			!store.dialect.isShared || isIP(source) === 0 || now - Date.parse(at) >= staleMs;
		const batch = isStopping ? [] : due.slice(0, maxConcurrent);
		// Written before the queries, so that other nodes find nothing due.
		await write(
			batch.map(({row}) => row),
			[...known.values()].filter(isGone),
		);
		const answered = await Promise.all(
			batch.map(async ({list, row}) => answeredRow(row, await askBlocklist(list, row.source, resolver))),
		);
		await write(isStopping ? [] : answered);
	}

	async function write(rows: readonly Blocklisting[], removed: readonly Blocklisting[] = []): Promise<void> {
		if (rows.length + removed.length > 0) {
			await store.writer.transaction(trx => saveBlocklistings(trx, rows, removed));
		}
	}

	const watch = repeated(lookMs, check, observer.storeFailed);
	return {
		/** Checks what is due. Resolves when the results are stored. */
		check: watch.now,
		/** Resolves when nothing is being written any more. The results of unfinished queries are dropped. */
		async stop(): Promise<void> {
			isStopping = true;
			resolver.cancel();
			await watch.stop();
		},
	};
}

/** Returns what was known before, marked as queried now. */
function askedRow(source: string, list: Blocklist, before: Blocklisting | undefined, now: string): Blocklisting {
	const nothing = {state: 'unknown', answer: null, reason: 'not checked yet', since: now, checked_at: null} as const;
	const {zone, name} = list;
	return {...nothing, ...before, source, zone, name, delist: delistLink(list, source), asked_at: now};
}

/** Returns the row with the result. A list that gives no usable answer ends a listing only after a day. */
function answeredRow(row: Blocklisting, listing: Listing): Blocklisting {
	const isKnown = listing.state === 'listed' || listing.state === 'clear';
	const age = Date.parse(row.asked_at) - Date.parse(row.checked_at ?? row.asked_at);
	if (!isKnown && row.state === 'listed' && age < dayMs) {
		return row;
	}
	const since = listing.state === row.state ? row.since : row.asked_at;
	return {...row, ...listing, since, checked_at: isKnown ? row.asked_at : row.checked_at};
}
