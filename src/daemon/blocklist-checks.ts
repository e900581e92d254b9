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

const checkMs = 60_000;
const dnsTimeoutMs = 5000;
/** Limits the queries per minute if there are thousands of domains. */
const maxConcurrent = 256;

/** Checks this node's addresses, and domains that no other node checks, against the blocklists once an hour. */
export function watchBlocklists({
	store,
	clock,
	settings,
	observer,
}: Pick<Context, 'store' | 'clock' | 'settings'> & {readonly observer: Pick<Context['observer'], 'storeFailed'>}) {
	const lists = loadBlocklists(settings);
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	let isStopping = false;

	async function check(): Promise<void> {
		const now = clock.now();
		const known = new Map(
			(await listBlocklistings(store.reader, 0)).map(row => [`${row.source} ${row.zone}`, row]),
		);
		const due: Array<{readonly list: Blocklist; readonly row: Blocklisting}> = [];
		for (const source of new Set([...sendingAddresses(settings), ...(await listVerifiedDomains(store.reader))])) {
			for (const list of lists.filter(candidate => doesList(candidate, source))) {
				const key = `${source} ${list.zone}`;
				const previous = known.get(key);
				known.delete(key);
				if (previous === undefined || Math.abs(now - Date.parse(previous.asked_at)) >= hourMs) {
					due.push({list, row: toQueriedRow(source, list, previous, storeTime(now))});
				}
			}
		}
		// The addresses of other nodes are removed by those nodes.
		const isRemovable = ({source, asked_at: queriedAt}: Blocklisting) =>
			!store.dialect.isShared || isIP(source) === 0 || now - Date.parse(queriedAt) >= staleMs;
		const batch = isStopping ? [] : due.slice(0, maxConcurrent);
		// Written before the queries, so that other nodes find nothing due.
		await write(
			batch.map(({row}) => row),
			[...known.values()].filter(isRemovable),
		);
		const results = await Promise.all(
			batch.map(async ({list, row}) => applyListing(row, await askBlocklist(list, row.source, resolver))),
		);
		await write(isStopping ? [] : results);
	}

	async function write(rows: readonly Blocklisting[], removed: readonly Blocklisting[] = []): Promise<void> {
		if (rows.length + removed.length > 0) {
			await store.writer.transaction(trx => saveBlocklistings(trx, rows, removed));
		}
	}

	const watch = repeated(checkMs, check, observer.storeFailed);
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

/** Returns the previous row, marked as queried now. */
function toQueriedRow(source: string, list: Blocklist, previous: Blocklisting | undefined, now: string): Blocklisting {
	const initial = {state: 'unknown', answer: null, reason: 'not checked yet', since: now, checked_at: null} as const;
	const {zone, name} = list;
	return {...initial, ...previous, source, zone, name, delist: delistLink(list, source), asked_at: now};
}

/** Returns the row with the result. Without a usable response, a listing ends only after a day. */
function applyListing(row: Blocklisting, listing: Listing): Blocklisting {
	const isKnown = listing.state === 'listed' || listing.state === 'clear';
	const age = Date.parse(row.asked_at) - Date.parse(row.checked_at ?? row.asked_at);
	if (!isKnown && row.state === 'listed' && age < dayMs) {
		return row;
	}
	const since = listing.state === row.state ? row.since : row.asked_at;
	return {...row, ...listing, since, checked_at: isKnown ? row.asked_at : row.checked_at};
}
