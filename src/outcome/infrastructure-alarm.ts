import {isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import type {Attempt, AttemptResult, BounceCategory} from '../mail/outcome.ts';
import {simulatorDomain} from '../mail/simulator.ts';

/** How often a provider's mail servers refused us because of our own setup in the last hour. */
export type Refusals = {
	readonly provider: string;
	readonly attempts: number;
	readonly refused: number;
	/** The mail server that refused last, and its reply. */
	readonly host: string;
	readonly reply: string;
};

/** R7.4. A single refusal out of three messages is not a problem yet. */
const maxShare = 0.05;
const minRefused = 5;
const slotMs = 5 * 60_000;
const slots = 12;
const maxProviders = 1000;

const ownCategories = new Set<BounceCategory>(['block', 'reputation', 'auth', 'relay_denied']);

/** The attempts of five minutes. */
type Slot = {readonly index: number; attempts: number; refused: number};

type Provider = {slots: Slot[]; host: string; reply: string};

/**
 * Watches for refusals that the operator has to fix, and that no workspace is blamed for: a blocklisted address, or
 * this machine's SPF, DKIM or host name. Counts are held in memory for an hour.
 */
export class InfrastructureAlarm {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #providers = new LRUCache<string, Provider>({max: maxProviders});

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	/** Counts a finished attempt. Returns an alarm if this refusal reaches or exceeds the limit. */
	countAttempt(result: AttemptResult): Refusals | null {
		const last = result.attempts.at(-1);
		if (!last?.host || last.host === simulatorDomain) {
			return null;
		}
		const provider = providerOf(last.host);
		const refusal = isRefusalOfUs(result, last) ? {host: last.host, reply: last.reply} : null;
		this.#count(provider, refusal);
		const refusals = refusal ? this.#refusalsOf(provider) : null;
		return refusals && isOverLimit(refusals) ? refusals : null;
	}

	/** Returns the providers that refuse too much at the moment. */
	current(): readonly Refusals[] {
		return [...this.#providers.keys()].map(provider => this.#refusalsOf(provider)).filter(isOverLimit);
	}

	#count(name: string, refusal: Pick<Refusals, 'host' | 'reply'> | null): void {
		const index = this.#currentIndex();
		const provider = this.#providers.get(name) ?? {slots: [], host: '', reply: ''};
		const recent = provider.slots.filter(slot => slot.index > index - slots);
		let current = recent.at(-1);
		if (current?.index !== index) {
			current = {index, attempts: 0, refused: 0};
			recent.push(current);
		}
		current.attempts++;
		current.refused += refusal ? 1 : 0;
		this.#providers.set(name, {...provider, ...refusal, slots: recent});
	}

	#refusalsOf(provider: string): Refusals {
		const since = this.#currentIndex() - slots;
		const {slots: all = [], host = '', reply = ''} = this.#providers.peek(provider) ?? {};
		const recent = all.filter(({index}) => index > since);
		const sum = (field: 'attempts' | 'refused') => recent.reduce((total, slot) => total + slot[field], 0);
		return {provider, attempts: sum('attempts'), refused: sum('refused'), host, reply};
	}

	#currentIndex(): number {
		return Math.floor(this.#clock.monotonic() / slotMs);
	}
}

function isOverLimit({attempts, refused}: Refusals): boolean {
	return refused >= minRefused && refused / attempts > maxShare;
}

/** Whether a refusal is about this machine. A policy refusal counts only with a security code (RFC 3463, x.7.x). */
function isRefusalOfUs({outcome}: AttemptResult, {enhanced}: Attempt): boolean {
	if (outcome.kind !== 'deferred' && outcome.kind !== 'bounced') {
		return false;
	}
	return ownCategories.has(outcome.category) || (outcome.category === 'policy' && /^[45]\.7\./.test(enhanced ?? ''));
}

/** Labels under which countries register names: `co.uk`, `com.au`, `ne.jp`. */
const registries: ReadonlySet<string> = new Set('ac co com edu go gov gr ne net or org'.split(' '));

/** Returns a mail server's provider: `aspmx.l.google.com` → `google.com`. Good enough for counting. */
export function providerOf(host: string): string {
	const labels = host.toLowerCase().replace(/\.$/, '').split('.');
	const isCountry = labels.at(-1)?.length === 2 && registries.has(labels.at(-2) ?? '');
	return isIP(host) !== 0 ? host : labels.slice(isCountry ? -3 : -2).join('.');
}
