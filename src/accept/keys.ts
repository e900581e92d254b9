import type {Knex} from 'knex';
import {findKeyUses, type KeyName, type KeyUse, keyNameText, releaseKeys, takeKeys} from '../store/idempotency-keys.ts';
import {type Accepted, replayOf} from './accepted.ts';
import type {Draft, Send} from './draft.ts';
import type {Idempotency} from './idempotency.ts';

/** A send that came with a key: its position in the group. */
type Keyed = {readonly index: number; readonly name: KeyName; readonly idempotency: Idempotency};

export function keyNameOf({workspaceId, mode}: Send, {key}: Idempotency): KeyName {
	return {workspaceId, mode, key};
}

/** What a send is answered whose key was used before; undefined: it was not, or has expired. */
export async function findReplay(
	reader: Knex,
	send: Send,
	idempotency: Idempotency,
	expiredBefore: string,
): Promise<Accepted | undefined> {
	const name = keyNameOf(send, idempotency);
	const use = (await findKeyUses(reader, [name], expiredBefore)).get(keyNameText(name));
	return use && repeat(use, idempotency);
}

/**
 * Takes the keys of the sends that passed, and repeats the answers of those whose keys were taken before, whether they
 * would pass or not. Usually one statement: sends are asked for only where they would be refused or their key is taken.
 */
export async function settleKeys(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	judged: readonly Accepted[],
	{now, expiredBefore}: {readonly now: string; readonly expiredBefore: string},
): Promise<readonly Accepted[]> {
	const keyed = keyedOf(drafts);
	if (keyed.length === 0) {
		return judged;
	}
	const uses = keyed.flatMap(one => usesOf(one, judged[one.index] as Accepted, now));
	if (new Set(uses.map(keyNameText)).size < uses.length) {
		throw new Error('Two sends with one Idempotency-Key are in one group: the second must wait for the first.');
	}
	const taken = uses.length > 0 ? await takeKeys(trx, uses, expiredBefore) : new Set();
	const others = keyed.filter(({name}) => !taken.has(keyNameText(name)));
	if (others.length === 0) {
		return judged;
	}
	const known = await findKeyUses(
		trx,
		others.map(({name}) => name),
		expiredBefore,
	);
	const settled = [...judged];
	for (const {index, name, idempotency} of others) {
		const use = known.get(keyNameText(name));
		if (use) {
			settled[index] = repeat(use, idempotency);
		} else if (judged[index]?.ok) {
			throw new Error('An Idempotency-Key was taken when it was to be stored, and gone when it was looked up.');
		}
	}
	return settled;
}

function usesOf({name, idempotency: {fingerprint}}: Keyed, result: Accepted, createdAt: string): KeyUse[] {
	return result.ok ? [{...name, fingerprint, response: result.body, messageId: result.id, createdAt}] : [];
}

function repeat(use: Pick<KeyUse, 'messageId' | 'response' | 'fingerprint'>, {fingerprint}: Idempotency): Accepted {
	return replayOf({id: use.messageId, body: use.response}, use.fingerprint === fingerprint);
}

/** Gives back the keys of sends that passed all checks but the last. */
export async function releaseRefused(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	refused: ReadonlySet<number>,
): Promise<void> {
	const names = keyedOf(drafts).flatMap(({index, name}) => (refused.has(index) ? [name] : []));
	if (names.length > 0) {
		await releaseKeys(trx, names);
	}
}

function keyedOf(drafts: readonly Draft[]): Keyed[] {
	return drafts.flatMap(({send, idempotency}, index) =>
		idempotency === null ? [] : [{index, name: keyNameOf(send, idempotency), idempotency}],
	);
}
