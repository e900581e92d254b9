import {lot} from '../kit/lot.ts';

/** What a node has of something that several nodes share, and how much it could use. */
export type Part = {readonly node: string; readonly wants: number; readonly slots: number};

/**
 * How a total is divided: nobody gets more than he wants, and of what is scarce everybody gets the same (max-min). For what
 * cannot be divided nodes draw lots (`of`: for what), so that each has its turn somewhere, and always the same one.
 */
export function fairShares(of: string, total: number, parts: readonly Part[]): ReadonlyMap<string, number> {
	const shares = new Map<string, number>();
	const inOrder = [...parts].sort((a, b) => a.wants - b.wants);
	let left = Math.max(0, total);
	let level = 0;
	for (const [index, {node, wants}] of inOrder.entries()) {
		level = Math.floor(left / (inOrder.length - index));
		if (wants > level) {
			const unsatisfied = inOrder.slice(index).sort((a, b) => lot(of, b.node) - lot(of, a.node));
			for (const [place, one] of unsatisfied.entries()) {
				shares.set(one.node, level + (place < left - level * unsatisfied.length ? 1 : 0));
			}
			return shares;
		}
		shares.set(node, wants);
		left -= wants;
	}
	return shares;
}

export type Shared = {
	readonly of: string;
	/** What all nodes may have together now. */
	readonly total: number;
	/** Nodes that live, this one included: some of what nobody wants is kept for those that want nothing yet. */
	readonly nodes: number;
	/** `slots`: what it may be using until it is known to use less. */
	readonly mine: Part;
	/** The others that have some, or want some. */
	readonly others: readonly Part[];
};

/**
 * What a node `may` use now, what is `fair`, and what it is `held` to have: others get that only once it is known that this node uses it
 * no more. Who has more than its share gives it back as its sessions end, and who has less gets what is free.
 */
export function shareNow({of, total, nodes, mine, others}: Shared): {
	readonly may: number;
	readonly held: number;
	readonly fair: number;
} {
	const shares = fairShares(of, total, [mine, ...others]);
	let surplus = Math.max(0, total);
	for (const share of shares.values()) {
		surplus -= share;
	}
	const fair = shares.get(mine.node) as number;
	const target = fair + Math.floor(surplus / nodes);
	const free = others.reduce((left, {slots}) => left - slots, total);
	const may = Math.max(0, Math.min(target, free));
	return {may, held: Math.max(may, mine.slots), fair};
}

/** What a node wants, and how often in a row it needed less than half of that. */
export type Wants = {readonly wants: number; readonly idle: number};

/** So many times less is needed before less is wanted: what changes all the time would be written all the time. */
const patience = 5;

/** More is wanted at once, in powers of two; less after a while. */
export function wantedNow({wants, idle}: Wants, needs: number): Wants {
	if (needs > wants) {
		return {wants: 2 ** Math.ceil(Math.log2(needs)), idle: 0};
	}
	if (2 * needs >= wants && needs > 0) {
		return {wants, idle: 0};
	}
	return idle + 1 < patience ? {wants, idle: idle + 1} : {wants: Math.floor(wants / 2), idle: 0};
}
