import {isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import type {Attempt, AttemptResult, BounceCategory} from '../mail/outcome.ts';
import {simulatorDomain} from '../mail/simulator.ts';

/** What a provider's hosts refused because of us in the last hour. */
export type Refusals = {
	readonly provider: string;
	readonly attempts: number;
	readonly refused: number;
};

/** A provider refuses too much of our mail because of us: its last word. */
type Alarm = Refusals & {readonly host: string; readonly reply: string};

/** R7.4. One refusal of three mails is no trouble yet. */
const share = 0.05;
const minRefused = 5;
const slotMs = 5 * 60_000;
const slots = 12;
const maxProviders = 1000;

const ofUs: ReadonlySet<BounceCategory> = new Set<BounceCategory>(['block', 'reputation', 'auth', 'relay_denied']);

type Slot = {readonly n: number; attempts: number; refused: number};

/**
 * Watches what providers reply about this machine: listed addresses, its SPF, DKIM and names. The operator has to fix
 * that, and no workspace is blamed. Kept in memory, by the hour.
 */
export class InfrastructureAlarm {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #providers = new LRUCache<string, Slot[]>({max: maxProviders});

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	/** Counts the end of an attempt; returns an alarm if this makes too many refusals, or another one. */
	tried(result: AttemptResult): Alarm | null {
		const last = result.attempts.at(-1);
		if (!last?.host || last.host === simulatorDomain) {
			return null;
		}
		const provider = providerOf(last.host);
		const refused = isRefusalOfUs(result, last);
		this.#count(provider, refused);
		const refusals = refused ? this.#refusalsOf(provider) : null;
		return refusals && isTooMuch(refusals) ? {...refusals, host: last.host, reply: last.reply} : null;
	}

	/** The providers that refuse too much now. */
	current(): readonly Refusals[] {
		return [...this.#providers.keys()].map(provider => this.#refusalsOf(provider)).filter(isTooMuch);
	}

	#count(provider: string, refused: boolean): void {
		const n = this.#slotNow();
		const recent = (this.#providers.get(provider) ?? []).filter(slot => slot.n > n - slots);
		let last = recent.at(-1);
		if (last?.n !== n) {
			last = {n, attempts: 0, refused: 0};
			recent.push(last);
			this.#providers.set(provider, recent);
		}
		last.attempts++;
		last.refused += refused ? 1 : 0;
	}

	#refusalsOf(provider: string): Refusals {
		const since = this.#slotNow() - slots;
		const recent = (this.#providers.peek(provider) ?? []).filter(({n}) => n > since);
		const sum = (what: 'attempts' | 'refused') => recent.reduce((total, slot) => total + slot[what], 0);
		return {provider, attempts: sum('attempts'), refused: sum('refused')};
	}

	#slotNow(): number {
		return Math.floor(this.#clock.monotonic() / slotMs);
	}
}

function isTooMuch({attempts, refused}: Refusals): boolean {
	return refused >= minRefused && refused / attempts > share;
}

/** Blocklists and what else is said of the sending machine; a policy only with a code of security (RFC 3463, x.7.x). */
function isRefusalOfUs({outcome}: AttemptResult, {enhanced}: Attempt): boolean {
	if (outcome.kind !== 'deferred' && outcome.kind !== 'bounced') {
		return false;
	}
	return ofUs.has(outcome.category) || (outcome.category === 'policy' && /^[45]\.7\./.test(enhanced ?? ''));
}

/** Labels under which countries register names of others: `co.uk`, `com.au`, `ne.jp`. */
const registries: ReadonlySet<string> = new Set([
	'ac',
	'co',
	'com',
	'edu',
	'go',
	'gov',
	'gr',
	'ne',
	'net',
	'or',
	'org',
]);

/** The provider of a host, by the end of its name: `aspmx.l.google.com` is google.com's. Good enough to count by. */
export function providerOf(host: string): string {
	const labels = host.toLowerCase().replace(/\.$/, '').split('.');
	const isCountry = labels.at(-1)?.length === 2 && registries.has(labels.at(-2) ?? '');
	return isIP(host) !== 0 ? host : labels.slice(isCountry ? -3 : -2).join('.');
}
