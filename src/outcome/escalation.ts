import type {Knex} from 'knex';
import type {BounceCategory, Escalated} from '../mail/outcome.ts';
import {isSimulated} from '../mail/simulator.ts';
import {
	type AddressHealth,
	hasDelivery,
	readHealth,
	removeHealth,
	saveHealth,
} from '../resources/suppressions/store.ts';
import {type Pair, pairKey} from '../store/engine/rows.ts';

/** A failure that does not suppress by itself but counts towards R2.1. `at` is in the store's format. */
export type SoftBounce = {
	readonly workspaceId: string;
	readonly messageId: string;
	/** In comparison form. */
	readonly addressKey: string;
	readonly at: string;
};

/** R2.1: this many messages over this time without a delivery in between. */
const escalation = {messages: 3, overMs: 7 * 86_400_000};

/** RFC 3463: the mailbox is disabled, possibly only for now. */
const disabledCode = /^[45]\.2\.1$/;

/**
 * Whether a final failure counts against the address: its mailbox was full or disabled, and no reply called this
 * permanent. A rejection without a reason may be about us, the message or everybody at that mail server, so it never
 * counts.
 */
export function isSoftOfAddress(category: BounceCategory, enhanced: string | null): boolean {
	return category === 'mailbox_full' || (category === 'undetermined' && disabledCode.test(enhanced ?? ''));
}

/** Returns the health after one more failure. A second failure of the same message changes nothing. */
export function afterFailure(health: AddressHealth | undefined, {messageId, at}: SoftBounce): AddressHealth {
	if (health === undefined) {
		return {softMessages: 1, softSince: at, lastMessageId: messageId};
	}
	return health.lastMessageId === messageId
		? health
		: {...health, softMessages: health.softMessages + 1, lastMessageId: messageId};
}

/** Whether an address that failed this often is to be treated as nonexistent, unless there were deliveries. */
export function isDue({softMessages, softSince}: AddressHealth, at: string): boolean {
	return softMessages >= escalation.messages && Date.parse(at) - Date.parse(softSince) >= escalation.overMs;
}

/**
 * Counts failures in the transaction that records them. Returns those that make the address count as hard-bounced, and
 * restarts the count of such addresses. Ignores bounces of the simulator.
 */
export async function escalate<Bounce extends SoftBounce>(
	trx: Knex.Transaction,
	bounces: readonly Bounce[],
): Promise<Map<Bounce, Escalated>> {
	const escalated = new Map<Bounce, Escalated>();
	const counted = bounces
		.filter(({addressKey}) => !isSimulated(addressKey))
		.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
	if (counted.length === 0) {
		return escalated;
	}
	const known = await readHealth(trx, counted.map(toPair));
	const changed = new Map<string, {pair: Pair; health: AddressHealth; at: string}>();
	for (const bounce of counted) {
		const pair = toPair(bounce);
		const key = pairKey(...pair);
		const health = afterFailure(known.get(key), bounce);
		if (!isDue(health, bounce.at)) {
			known.set(key, health);
			changed.set(key, {pair, health, at: bounce.at});
		} else if (await hasDelivery(trx, pair, health.softSince)) {
			const restarted = afterFailure(undefined, bounce);
			known.set(key, restarted);
			changed.set(key, {pair, health: restarted, at: bounce.at});
		} else {
			escalated.set(bounce, {messages: health.softMessages, since: health.softSince});
			known.delete(key);
			changed.delete(key);
			await removeHealth(trx, pair);
		}
	}
	await saveHealth(trx, [...changed.values()]);
	return escalated;
}

function toPair({workspaceId, addressKey}: SoftBounce): Pair {
	return [workspaceId, addressKey];
}
