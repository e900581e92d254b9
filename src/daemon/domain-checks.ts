import type {Knex} from 'knex';
import type {OpenSources} from '../domains/check-records.ts';
import type {SendingNames} from '../domains/domain-records.ts';
import {lookAtDomain, nextCheck, patienceMs, recordDomainCheck, takeDomain} from '../domains/verify-domain.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {type Domain, listDueDomains} from '../store/domains.ts';
import type {Store} from '../store/store.ts';
import type {Observer} from './observer.ts';

type DomainChecksOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly acting: Acting;
	readonly observer: Pick<Observer, 'domainChecked' | 'storeFailed'>;
};

const lookMs = 15_000;
const minuteMs = 60_000;
const mostAtOnce = 4;
/** So that a new domain waits for few others, however many are due. */
const mostPerRound = 32;
const mostRead = 5000;

/**
 * Checks the domains that are due in the background. Several nodes may: the first that sets the time of the check takes
 * the domain, so that a node that dies leaves it due again.
 */
export function createDomainChecks({store, names, openSources, acting, observer}: DomainChecksOptions) {
	const {clock} = acting;
	let stopping = false;
	let looking: Promise<void> | null = null;
	let again = false;
	let timer: NodeJS.Timeout | undefined;
	const writes = new Set<Promise<unknown>>();

	/** Undefined: the daemon is stopping. */
	async function write<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result | undefined> {
		if (stopping) {
			return undefined;
		}
		const written = store.writer.transaction(work);
		writes.add(written);
		try {
			return await written;
		} finally {
			writes.delete(written);
		}
	}

	async function check(due: Domain): Promise<void> {
		const domain = await write(trx => takeDomain(trx, due, clock.now()));
		if (domain === undefined) {
			return;
		}
		const sight = await lookAtDomain(store.reader, domain, names, openSources, clock.now());
		const checked = await write(trx => recordDomainCheck(trx, acting, sight));
		if (checked !== undefined) {
			observer.domainChecked(checked);
		}
	}

	async function dueDomains(): Promise<Domain[]> {
		const now = clock.now();
		const moments = {
			now: storeTime(now),
			minuteAgo: storeTime(now - minuteMs),
			dayAgo: storeTime(now - dayMs),
			eager: storeTime(now - patienceMs - dayMs),
		};
		const rows = await listDueDomains(store.reader, moments, mostRead);
		return rows.filter(row => nextCheck(row, now) <= now).map(({pending_at: _pendingAt, ...domain}): Domain => domain);
	}

	/** Checks some of what is due; false: nothing is left. */
	async function round(): Promise<boolean> {
		const due = (await dueDomains()).slice(0, mostPerRound);
		const rest = due[Symbol.iterator]();
		let failed = false;
		const queue = async () => {
			for (let next = rest.next(); !next.done && !stopping && !failed; next = rest.next()) {
				await check(next.value).catch(error => {
					failed = true;
					observer.storeFailed(error);
				});
			}
		};
		await Promise.all(Array.from({length: mostAtOnce}, queue));
		return due.length > 0 && !failed;
	}

	/** Checks what is due now; resolves when that is done. What is asked meanwhile is looked at once more. */
	async function look(): Promise<void> {
		if (looking !== null) {
			again = true;
			return await looking;
		}
		looking = (async () => {
			let more: boolean;
			do {
				again = false;
				more = await round();
			} while ((more || again) && !stopping);
		})();
		try {
			await looking;
		} finally {
			looking = null;
		}
	}

	const lookOrTell = () => void look().catch(observer.storeFailed);
	return {
		start(): void {
			timer = setInterval(lookOrTell, lookMs);
			lookOrTell();
		},
		look,
		/** Others changed domains: one may be new. */
		rescan: lookOrTell,
		/** Resolves when nothing is being written any more; look-ups that are under way come to nothing. */
		async stop(): Promise<void> {
			stopping = true;
			clearInterval(timer);
			await Promise.allSettled(writes);
		},
	};
}

export type DomainChecks = ReturnType<typeof createDomainChecks>;
