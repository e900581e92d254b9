import type {Knex} from 'knex';
import {type DmarcCount, otherAddresses} from '../mail/aggregate.ts';

/** How much is accepted per day from the reports about a domain. A report counts on the day it begins. */
type Bound = {
	/** The limit for one signer; unsigned reports count as those of one signer. */
	readonly each: number;
	/** The limit for all signers together. */
	readonly all: number;
	/**
	 * Accepted from each signer even when `all` is used up, until the total reaches three times `all`. Somebody who
	 * signs for many domains therefore cannot crowd out others.
	 */
	readonly reserved: number;
};

export const bounds = {
	reports: {each: 300, all: 1000, reserved: 3},
	/** Groups of messages in reports signed by their reporters. A report lists its largest groups first. */
	provenGroups: {each: 500, all: 1000, reserved: 20},
	unprovenGroups: {each: 100, all: 100, reserved: 0},
	/** Texts about TLS failures, in characters. */
	failures: {each: 4096, all: 16_384, reserved: 1024},
} as const satisfies Record<string, Bound>;

type Use = Readonly<Record<'own' | 'all', number>>;

export function roomLeft({each, all, reserved}: Bound, use: Use): number {
	const shared = Math.min(each - use.own, all - use.all);
	const own = Math.min(reserved - use.own, 3 * all - use.all);
	return Math.max(0, shared, own);
}

type UseOptions = {
	/** The rows of the reports about a domain. */
	readonly reports: Knex.QueryBuilder;
	readonly day: string;
	/** The domain of the signature. A signer may use any number of names below its domain. */
	readonly signedBy: string | null;
	/** How much a report contributed, as SQL. */
	readonly amount: string;
};

/** Returns how many reports begin on a day, and how much they contributed, in total and for this signer. */
export async function readUse(
	trx: Knex.Transaction,
	{reports, day, signedBy, amount}: UseOptions,
): Promise<{readonly reports: Use; readonly amounts: Use}> {
	const signerPattern = `%.${signedBy?.split('.').slice(-2).join('.') ?? ''}`;
	const isOwn = "'.' || coalesce(signed_by, '') like ?";
	const row = await reports
		.whereBetween('begin_at', [day, `${day}~`])
		.count('* as reports')
		.select(
			trx.raw(`sum(case when ${isOwn} then 1 else 0 end) as own_reports`, [signerPattern]),
			trx.raw(`sum(${amount}) as amount`),
			trx.raw(`sum(case when ${isOwn} then ${amount} else 0 end) as own_amount`, [signerPattern]),
		)
		.first();
	return {
		reports: {all: Number(row.reports), own: Number(row.own_reports)},
		amounts: {all: Number(row.amount), own: Number(row.own_amount)},
	};
}

/** The groups of messages to store, including the sums of the rest. `added` is how many separate ones are new. */
type Fitted = {readonly counts: readonly DmarcCount[]; readonly added: number};

/** Keeps stored groups separate, and as many new ones as there is room for. Adds up the rest. */
export function fitCounts(
	counts: readonly DmarcCount[],
	isStored: (group: DmarcCount) => boolean,
	room: number,
): Fitted {
	const separate: DmarcCount[] = [];
	const rest = new Map<string, DmarcCount>();
	let added = 0;
	for (const group of counts) {
		const isKnown = isStored(group);
		if (isKnown || added < room) {
			added += isKnown ? 0 : 1;
			separate.push(group);
		} else {
			const sum = {...group, ip: otherAddresses, why: ''};
			const key = groupKey(sum);
			rest.set(key, {...sum, n: sum.n + (rest.get(key)?.n ?? 0)});
		}
	}
	return {counts: [...separate, ...rest.values()], added};
}

/** Returns the key that distinguishes groups of messages of one day. */
export const groupKey = ({ip, dkim, spf, disposition, why}: Omit<DmarcCount, 'n'>): string =>
	JSON.stringify([ip, Number(dkim), Number(spf), disposition, why]);
