import {createHash} from 'node:crypto';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../../kit/clock.ts';
import {atMost} from '../../kit/collections.ts';
import {clientNetwork} from '../../net/ip-address.ts';

const windowMs = 15 * 60_000;
const maxRetained = 10_000;

type Window = {readonly since: number; n: number};

/**
 * A sign-in attempt. If `account` is `null`, only the network counts. `isCode` marks a one-time code, which follows a
 * correct password.
 */
export type Attempt = {readonly address: string; readonly account: string | null; readonly isCode?: true};

type Limit = {readonly max: number; readonly windows: LRUCache<string, Window>};

/** Each limit has its own cache, so that failures from many networks cannot evict those of an account. */
function createLimit(max: number): Limit {
	return {max, windows: new LRUCache<string, Window>(atMost(maxRetained))};
}

/**
 * Counts failed logins of client networks (such as an IPv6 /64) and of accounts, within this process.
 * - Ten wrong passwords lock an account for their network only, so that a stranger cannot lock out its user.
 * - A hundred wrong passwords lock an account for all networks, and thirty lock a network for all accounts.
 * - Ten wrong codes lock an account for all networks, because whoever enters codes knows the password.
 *
 * Attempts are counted when they start. Otherwise many concurrent ones would pass before the first has failed.
 */
export class FailedLogIns {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #networks = createLimit(30);
	readonly #pairs = createLimit(10);
	readonly #accounts = createLimit(100);
	readonly #codes = createLimit(10);

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	/** Counts an attempt as failed until it succeeds. Returns seconds to wait after too many failures, or `null`. */
	begin(attempt: Attempt): number | null {
		const now = this.#clock.monotonic();
		const counters = this.#countersOf(attempt).map(counter => {
			const previous = counter.windows.get(counter.key);
			const isOpen = previous && now - previous.since < windowMs;
			return {...counter, window: isOpen ? previous : {since: now, n: 0}};
		});
		const exceeded = counters.filter(({max, window}) => window.n >= max);
		if (exceeded.length > 0) {
			return Math.ceil(Math.max(...exceeded.map(({window}) => window.since + windowMs - now)) / 1000);
		}
		for (const {windows, key, window} of counters) {
			window.n++;
			windows.set(key, window);
		}
		return null;
	}

	/** Undoes the count of an attempt that was passed to `begin` and did not fail. */
	succeeded(attempt: Attempt): void {
		for (const {windows, key} of this.#countersOf(attempt)) {
			const window = windows.get(key);
			if (window && --window.n <= 0) {
				windows.delete(key);
			}
		}
	}

	#countersOf({address, account: name, isCode}: Attempt): ReadonlyArray<Limit & {readonly key: string}> {
		const network = {...this.#networks, key: clientNetwork(address)};
		if (name === null) {
			return [network];
		}
		// Hashed, because a substring of a form would keep the whole form (up to a megabyte) in memory.
		const account = createHash('sha256').update(name).digest('base64');
		return isCode
			? [network, {...this.#codes, key: account}]
			: [network, {...this.#pairs, key: `${network.key} ${account}`}, {...this.#accounts, key: account}];
	}
}
