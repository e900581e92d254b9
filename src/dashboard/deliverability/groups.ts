import {wordingOf} from '../../bounce/reply-text.ts';
import type {BounceCategory} from '../../mail/outcome.ts';
import {providerOf} from '../../reputation/alarm.ts';
import type {LastTry, Refusal} from '../../store/reputation.ts';

/** What became of the copies for one provider or destination. */
export type Group = {
	/** Null: no host has answered about them yet. */
	readonly name: string | null;
	recipients: number;
	delivered: number;
	bounced: number;
	waiting: number;
	/** Those that were tried more than once, or wait for another try after a reply. */
	deferred: number;
	/** Those that a host spoke about last over TLS, and with a certificate that was verified. */
	tls: number;
	verified: number;
	/** Those that a host spoke about at all. */
	spoken: number;
};

/** The largest first, of equal ones those that refuse most. */
export function groupRecipients(recipients: readonly LastTry[], by: 'provider' | 'destination'): Group[] {
	const groups = new Map<string | null, Group>();
	for (const recipient of recipients) {
		const name = by === 'destination' ? recipient.destination : recipient.host && providerOf(recipient.host);
		const group = groups.get(name) ?? emptyGroup(name);
		groups.set(name, group);
		add(group, recipient);
	}
	return [...groups.values()].sort((a, b) => b.recipients - a.recipients || b.bounced - a.bounced);
}

/** All of them together. */
export function sumOf(recipients: readonly LastTry[]): Group {
	const all = emptyGroup(null);
	for (const recipient of recipients) {
		add(all, recipient);
	}
	return all;
}

const emptyGroup = (name: string | null): Group => ({
	name,
	...{recipients: 0, delivered: 0, bounced: 0, waiting: 0, deferred: 0, tls: 0, verified: 0, spoken: 0},
});

function add(group: Group, {state, attempts, waits, host, tls}: LastTry): void {
	group.recipients++;
	// A smarthost's word is the last that is heard of what it took.
	group.delivered += state === 'delivered' || state === 'complained' || (state === 'sent' && !waits) ? 1 : 0;
	group.bounced += state === 'bounced' ? 1 : 0;
	group.waiting += waits ? 1 : 0;
	group.deferred += attempts > 1 || (waits && attempts > 0) ? 1 : 0;
	group.spoken += host === null ? 0 : 1;
	group.tls += tls === null ? 0 : 1;
	group.verified += tls !== null && /\bverified\b/.test(tls) ? 1 : 0;
}

/** Refusals that say the same. */
export type Wording = {
	readonly wording: string;
	/** One of the replies, as it came. */
	readonly example: string;
	readonly category: BounceCategory | null;
	bounced: number;
	waiting: number;
	readonly destinations: Map<string, number>;
};

/** The most frequent first. */
export function groupRefusals(refusals: readonly Refusal[]): Wording[] {
	const groups = new Map<string, Wording>();
	for (const {destination, category, reply, waits} of refusals) {
		const wording = wordingOf(reply);
		const key = `${category} ${wording}`;
		const group = groups.get(key) ?? {
			...{wording, category, example: reply, bounced: 0, waiting: 0},
			destinations: new Map<string, number>(),
		};
		groups.set(key, group);
		group[waits ? 'waiting' : 'bounced']++;
		group.destinations.set(destination, (group.destinations.get(destination) ?? 0) + 1);
	}
	return [...groups.values()].sort((a, b) => b.bounced + b.waiting - a.bounced - a.waiting);
}

/** How many refusals there are of each category, the most first. */
export function countCategories(
	refusals: readonly Refusal[],
): Array<{readonly category: BounceCategory | null; readonly bounced: number; readonly waiting: number}> {
	const counts = new Map<BounceCategory | null, {bounced: number; waiting: number}>();
	for (const {category, waits} of refusals) {
		const one = counts.get(category) ?? {bounced: 0, waiting: 0};
		counts.set(category, one);
		one[waits ? 'waiting' : 'bounced']++;
	}
	return [...counts]
		.map(([category, one]) => ({category, ...one}))
		.sort((a, b) => b.bounced + b.waiting - a.bounced - a.waiting);
}
