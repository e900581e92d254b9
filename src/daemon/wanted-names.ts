import {networkInterfaces} from 'node:os';
import {publicHost} from '../config/derive.ts';
import {inTurn} from '../kit/clock.ts';
import {dayMs, hourMs, storeTime} from '../kit/time.ts';
import {createResolver} from '../net/resolver.ts';
import {findWishes, newNames, type Wish} from '../resources/certificates/names.ts';
import {isBegun, notAsked, overBudget} from '../resources/certificates/renewal.ts';
import {
	type Certificate,
	deleteCertificate,
	type Hosts,
	listCertificates,
	listHosts,
	type Noted,
	noteWishes,
} from '../resources/certificates/store.ts';
import type {Context} from './context.ts';

const minuteMs = 60_000;
/** How often DNS is queried for where names point. */
const namesMs = 5 * minuteMs;
/** A name that no node has wanted for this long is not wanted. Nodes that share a store may have names of their own. */
const staleMs = 30 * minuteMs;
const dnsTimeoutMs = 5000;
/** The maximum number of names in one log line. */
const maxListedNames = 10;

type NamesContext = Pick<Context, 'settings' | 'store' | 'clock' | 'observer'>;

/** The names that should have a certificate, and what the store has about them. */
export class WantedNames {
	/** The names from the settings. */
	readonly own: readonly string[];
	readonly #context: NamesContext;
	readonly #resolver: ReturnType<typeof createResolver>;
	readonly #inTurn = inTurn();
	#wishes: ReadonlyMap<string, Wish> = new Map();
	#lookedFor = '';
	#lookedAt = Number.NEGATIVE_INFINITY;
	#isEnding = false;

	constructor(context: NamesContext) {
		const {settings, clock} = context;
		this.#context = context;
		this.own = settings.publicUrl === null ? [settings.hostname] : [settings.hostname, publicHost(settings)];
		this.#resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	}

	isWanted(name: string): boolean {
		return this.#wishes.get(name) === 'yes';
	}

	/** Cancels DNS queries: thousands of names may be waiting for servers that do not respond. */
	stop(): void {
		this.#isEnding = true;
		this.#resolver.cancel();
	}

	/** Determines which names are wanted now, if that is due or domains have changed. */
	async refresh(): Promise<void> {
		await this.#inTurn(() => this.#refresh());
	}

	async #refresh(): Promise<void> {
		const {settings, store, clock} = this.#context;
		const hosts = await listHosts(store.reader);
		const lookedFor = JSON.stringify(hosts);
		const isTime = clock.monotonic() - this.#lookedAt >= namesMs;
		if (lookedFor === this.#lookedFor && !isTime) {
			return;
		}
		const [hostname, host = null] = this.own as [string, string?];
		const mailDomains = [settings.returnPathDomain, ...hosts.mailDomains];
		const listed = new Set([...this.own, ...hosts.linkHosts, ...mailDomains.map(name => `mta-sts.${name}`)]);
		const linksEnd = storeTime(clock.now() - settings.tokenLifetime);
		const former = (await listCertificates(store.reader)).filter(
			row => row.not_after !== null && (row.wanted_at ?? '') > linksEnd && !row.name.startsWith('mta-sts.'),
		);
		const wishes = await findWishes({
			hostname,
			publicHost: host,
			linkHosts: hosts.linkHosts,
			mailDomains,
			former: former.map(({name}) => name),
			addresses: Object.values(networkInterfaces()).flatMap(all => all?.map(({address}) => address) ?? []),
			resolver: this.#resolver,
			isSure: name => this.#isEnding || (!isTime && this.isWanted(name)),
		});
		if (this.#isEnding) {
			return;
		}
		// Without a DNS answer nothing changes.
		this.#wishes = new Map(
			[...wishes].map(([name, wish]) => [name, wish === 'unknown' ? (this.#wishes.get(name) ?? wish) : wish]),
		);
		await this.#note(hosts, listed);
		this.#lookedFor = lookedFor;
		this.#lookedAt = isTime ? clock.monotonic() : this.#lookedAt;
	}

	/** Writes only what has changed, because there may be thousands of names. */
	async #note({unseen, owners}: Hosts, listed: ReadonlySet<string>): Promise<void> {
		const {settings, store, clock, observer} = this.#context;
		const now = storeTime(clock.now());
		const dayAgo = storeTime(clock.now() - dayMs);
		// A node on its own needs no other node's confirmation. It notes its own so that it can be compared with days.
		const [stale, rest] = store.dialect.isShared ? [staleMs, staleMs / 2] : [0, dayMs / 2];
		const isOlder = (row: Certificate, ms: number) => (row.wanted_at ?? '') <= storeTime(clock.now() - ms);
		const isRecent = (row: Certificate) => (row.not_before ?? row.updated_at) > dayAgo;
		const rows = new Map((await listCertificates(store.reader)).map(row => [row.name, row]));
		const ownNames = [...this.own, `mta-sts.${settings.returnPathDomain}`];
		const others = [...rows.values()].filter(row => isRecent(row) && isBegun(row) && !ownNames.includes(row.name));
		const isWithin = newNames(
			new Map(owners),
			others.map(({name}) => name),
		);
		const notSeen = new Set(unseen);
		const [wanted, again, kept, unwanted]: [Noted[], Noted[], Noted[], Noted[]] = [[], [], [], []];
		const held: Noted[] = [];
		const removed: Certificate[] = [];
		for (const name of new Set([...rows.keys(), ...this.#wishes.keys()])) {
			const row = rows.get(name);
			const wish = this.#wishes.get(name) ?? {no: null};
			const isNew = row === undefined || !isBegun(row);
			if (wish === 'yes' && row === undefined && notSeen.has(name)) {
				// The next check of the domain, which comes at once, queries DNS.
			} else if (wish === 'yes' && isNew && !ownNames.includes(name) && !isWithin(name)) {
				if (row?.unused !== overBudget) {
					held.push({name, unused: overBudget});
				}
			} else if (wish === 'yes') {
				if (row !== undefined && row.unused !== null) {
					// A name that keeps coming and going is not attempted each time.
					const soon = storeTime(Date.parse(row.updated_at) + hourMs);
					const next_try_at = soon < row.next_try_at ? soon : row.next_try_at;
					listed.has(name)
						? again.push({name, unused: null, next_try_at, updated_at: now})
						: kept.push({name, unused: null});
				}
				// The time of a former name is not updated, because its lifetime ends relative to it.
				if (listed.has(name) && (row === undefined || isOlder(row, rest))) {
					wanted.push({name, wanted_at: now});
				}
			} else if (wish === 'unknown' || (row !== undefined && !isOlder(row, stale))) {
				// DNS gave no answer, or another node wants the name.
			} else if (
				row !== undefined &&
				wish.no === null &&
				(row.not_after ?? '') <= now &&
				!(isBegun(row) && isRecent(row))
			) {
				// Until then it counts as a new name, whatever its result.
				removed.push(row);
			} else if (row === undefined ? wish.no !== null : row.unused !== (wish.no ?? notAsked)) {
				unwanted.push({name, unused: wish.no ?? notAsked});
			}
		}
		if ([wanted, again, kept, unwanted, held, removed].some(changed => changed.length > 0)) {
			await store.writer.transaction(async trx => {
				for (const changed of [wanted, again, kept, unwanted, held]) {
					await noteWishes(trx, changed, now);
				}
				for (const row of removed) {
					await deleteCertificate(trx, row);
				}
			});
		}
		if (held.length > 0) {
			const names = held.slice(0, maxListedNames).map(({name}) => name);
			observer.logger.warn({event: 'certificates_held', names}, `For each: ${overBudget}.`);
		}
	}
}
