import type {Knex} from 'knex';
import type {BounceCategory, Escalated} from '../mail/outcome.ts';
import {isSimulated} from '../mail/simulator.ts';
import {type Pair, pairKey} from '../store/engine/rows.ts';
import {type AddressHealth, hasDelivery, readHealth, removeHealth, saveHealth} from '../store/suppressions.ts';

/** A failure that does not suppress by itself and counts towards R2.1; `at` in the store's form. */
export type SoftBounce = {
	readonly workspaceId: string;
	readonly messageId: string;
	/** The comparison form. */
	readonly addressKey: string;
	readonly at: string;
};

/** R2.1: the number of messages, over this time, without a delivery in between. */
const escalation = {messages: 3, overMs: 7 * 86_400_000};

/** RFC 3463: the mailbox is disabled, be it for now. */
const disabledCode = /^[45]\.2\.1$/;

/**
 * Whether a final failure counts: the mailbox was full, also if the tries ended because of it, or it was disabled, and
 * no reply said that this is permanent. A refusal without a reason may mean us, the mail or everybody at that host, so
 * it never counts against the address.
 */
export function isSoftOfAddress(category: BounceCategory, enhanced: string | null): boolean {
	return category === 'mailbox_full' || (category === 'undetermined' && disabledCode.test(enhanced ?? ''));
}

/** The health after one more failure; a second one of the same message changes nothing. */
export function afterFailure(health: AddressHealth | undefined, {messageId, at}: SoftBounce): AddressHealth {
	if (health === undefined) {
		return {softMessages: 1, softSince: at, lastMessageId: messageId};
	}
	return health.lastMessageId === messageId
		? health
		: {...health, softMessages: health.softMessages + 1, lastMessageId: messageId};
}

/** Whether an address that failed so often is to be taken for gone, but for deliveries. */
export function isDue({softMessages, softSince}: AddressHealth, at: string): boolean {
	return softMessages >= escalation.messages && Date.parse(at) - Date.parse(softSince) >= escalation.overMs;
}

/**
 * Counts failures, in the transaction that records them, and returns those that make the address count as after a hard
 * bounce; the count of such an address starts again. Reads and writes nothing for an empty list. Does not count those
 * of the simulator.
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
	const known = await readHealth(trx, counted.map(pairOf));
	const changed = new Map<string, {pair: Pair; health: AddressHealth; at: string}>();
	for (const bounce of counted) {
		const pair = pairOf(bounce);
		const key = pairKey(...pair);
		const health = afterFailure(known.get(key), bounce);
		if (!isDue(health, bounce.at)) {
			known.set(key, health);
			changed.set(key, {pair, health, at: bounce.at});
		} else if (await hasDelivery(trx, pair, health.softSince)) {
			const first = afterFailure(undefined, bounce);
			known.set(key, first);
			changed.set(key, {pair, health: first, at: bounce.at});
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

function pairOf({workspaceId, addressKey}: SoftBounce): Pair {
	return [workspaceId, addressKey];
}
