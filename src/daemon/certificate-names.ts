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
/** How often DNS is queried for the addresses of names. */
const checkMs = 5 * minuteMs;
/** A name is unwanted once no node has wanted it for this long: nodes that share a store may have different names. */
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
	#checkedHosts = '';
	#checkedAt = Number.NEGATIVE_INFINITY;
	#isStopping = false;

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
		this.#isStopping = true;
		this.#resolver.cancel();
	}

	/** Determines which names are wanted now, if that is due or domains have changed. */
	async refresh(): Promise<void> {
		await this.#inTurn(() => this.#refresh());
	}

	async #refresh(): Promise<void> {
		const {settings, store, clock} = this.#context;
		const hosts = await listHosts(store.reader);
		const hostsText = JSON.stringify(hosts);
		const isDue = clock.monotonic() - this.#checkedAt >= checkMs;
		if (hostsText === this.#checkedHosts && !isDue) {
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
			isSure: name => this.#isStopping || (!isDue && this.isWanted(name)),
		});
		if (this.#isStopping) {
			return;
		}
		// If DNS did not respond for a name, its previous result remains.
		this.#wishes = new Map(
			[...wishes].map(([name, wish]) => [name, wish === 'unknown' ? (this.#wishes.get(name) ?? wish) : wish]),
		);
		await this.#note(hosts, listed);
		this.#checkedHosts = hostsText;
		this.#checkedAt = isDue ? clock.monotonic() : this.#checkedAt;
	}

	/** Writes only what has changed, because there may be thousands of names. */
	async #note(hosts: Hosts, listed: ReadonlySet<string>): Promise<void> {
		const {store, clock, observer} = this.#context;
		const now = storeTime(clock.now());
		const {removed, held, ...noted} = await this.#findChanges(hosts, listed, now);
		const lists = Object.values(noted);
		if ([...lists, removed].some(list => list.length > 0)) {
			await store.writer.transaction(async trx => {
				for (const names of lists) {
					await noteWishes(trx, names, now);
				}
				for (const row of removed) {
					await deleteCertificate(trx, row);
				}
			});
		}
		if (held.length > 0) {
			const names = held.slice(0, maxListedNames);
			observer.logger.warn({event: 'certificates_held', names}, `For each: ${overBudget}.`);
		}
	}

	/** `held` has new names that exceed the limit of their workspace. The rows of a list all have the same columns. */
	async #findChanges({unseen, owners}: Hosts, listed: ReadonlySet<string>, now: string) {
		const {settings, store, clock} = this.#context;
		const dayAgo = storeTime(clock.now() - dayMs);
		// A single node need not wait for others. It updates the time twice a day, which is enough to compare days.
		const [staleAfter, renewAfter] = store.dialect.isShared ? [staleMs, staleMs / 2] : [0, dayMs / 2];
		const isOlder = (row: Certificate, ms: number) => (row.wanted_at ?? '') <= storeTime(clock.now() - ms);
		const isRecent = (row: Certificate) => (row.not_before ?? row.updated_at) > dayAgo;
		const rows = new Map((await listCertificates(store.reader)).map(row => [row.name, row]));
		const ownNames = [...this.own, `mta-sts.${settings.returnPathDomain}`];
		const counted = [...rows.values()].filter(row => isRecent(row) && isBegun(row) && !ownNames.includes(row.name));
		const isWithinLimit = newNames(
			new Map(owners),
			counted.map(({name}) => name),
		);
		const unseenNames = new Set(unseen);
		const [wanted, wantedAgain, unused]: [Noted[], Noted[], Noted[]] = [[], [], []];
		const [removed, held]: [Certificate[], string[]] = [[], []];
		for (const name of new Set([...rows.keys(), ...this.#wishes.keys()])) {
			const row = rows.get(name);
			const wish = this.#wishes.get(name) ?? {no: null};
			const isNew = row === undefined || !isBegun(row);
			if (wish === 'yes' && row === undefined && unseenNames.has(name)) {
				// The next check of the domain, which comes at once, queries DNS.
			} else if (wish === 'yes' && isNew && !ownNames.includes(name) && !isWithinLimit(name)) {
				if (row?.unused !== overBudget) {
					unused.push({name, unused: overBudget});
					held.push(name);
				}
			} else if (wish === 'yes') {
				if (row !== undefined && row.unused !== null && listed.has(name)) {
					// A name that keeps coming and going is not attempted each time.
					const soon = storeTime(Date.parse(row.updated_at) + hourMs);
					const next_try_at = soon < row.next_try_at ? soon : row.next_try_at;
					wantedAgain.push({name, unused: null, next_try_at, updated_at: now});
				} else if (row !== undefined && row.unused !== null) {
					unused.push({name, unused: null});
				}
				// The time of a former name is not updated, because its lifetime ends relative to it.
				if (listed.has(name) && (row === undefined || isOlder(row, renewAfter))) {
					wanted.push({name, wanted_at: now});
				}
			} else if (wish === 'unknown' || (row !== undefined && !isOlder(row, staleAfter))) {
				// DNS did not respond, or another node wants the name.
			} else if (row && wish.no === null && (row.not_after ?? '') <= now && !(isBegun(row) && isRecent(row))) {
				// Until it is removed, it counts as a new name, whatever its result.
				removed.push(row);
			} else if (row === undefined ? wish.no !== null : row.unused !== (wish.no ?? notAsked)) {
				unused.push({name, unused: wish.no ?? notAsked});
			}
		}
		return {wanted, wantedAgain, unused, removed, held};
	}
}
