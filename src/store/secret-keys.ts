import {hkdfSync} from 'node:crypto';
import type {Knex} from 'knex';
import {createVault, type MasterKeys, readSealed, sealingIds} from './sealed.ts';

/** A key as it was configured. The ids of `secrets.json` are its own, those of MAILCTL_SECRET_KEY are the store's. */
export type ConfiguredKey = {readonly id: number | null; readonly key: Uint8Array};

/** Why keys are not those of a store: none of them is, one has another key's id, or one that sealed secrets is missing. */
export type KeyFault =
	| {readonly kind: 'foreign'}
	| {readonly kind: 'exchanged'; readonly id: number}
	| {readonly kind: 'missing'; readonly id: number}
	| {readonly kind: 'full'};

/** A key that the store does not know yet, as it notes it. */
export type FreshKey = {readonly id: number; readonly proof: string};

export type Matched =
	| {readonly ok: true; readonly keys: MasterKeys; readonly fresh: readonly FreshKey[]}
	| {readonly ok: false; readonly fault: KeyFault};

/** What the store keeps of a key: it proves the key and tells nothing of it. */
function proofOf(key: Uint8Array): string {
	return Buffer.from(hkdfSync('sha256', key, '', 'mailctl secret key proof', 32)).toString('base64url');
}

/** The keys that the store was used with: their ids by their proofs. */
async function readKnown(reader: Knex): Promise<Map<string, number>> {
	const rows: Array<{id: number; proof: string}> = await reader('secret_keys').orderBy('id');
	return new Map(rows.map(({id, proof}) => [proof, id]));
}

/** Ids that were given to keys, also to those that are no longer configured. */
export async function keyIds(reader: Knex): Promise<number[]> {
	return [...(await readKnown(reader)).values()];
}

/** Whether the store was used with a key before. */
export async function expectsKeys(reader: Knex): Promise<boolean> {
	return (await reader('secret_keys').first('id')) !== undefined || (await sealingIds(reader)).length > 0;
}

/**
 * Compares the configured keys (the first of them seals) with those that the store was used with. Where none was noted,
 * what is sealed says which key is right, and an empty store takes every key. `freeId`: an id that none of these has.
 */
export async function matchKeys(
	reader: Knex,
	configured: readonly ConfiguredKey[],
	freeId: (used: readonly number[]) => number | null,
): Promise<Matched> {
	const noted = await readKnown(reader);
	const known = noted.size > 0 ? noted : await provenBySecrets(reader, configured);
	if (known === null || (known.size > 0 && !configured.some(({key}) => known.has(proofOf(key))))) {
		return {ok: false, fault: {kind: 'foreign'}};
	}

	const used = [...known.values()];
	const keys: Record<number, Uint8Array> = {};
	const ids: number[] = [];
	const fresh: FreshKey[] = [];
	for (const {id: own, key} of configured) {
		const proof = proofOf(key);
		const knownId = known.get(proof);
		const id = knownId ?? own ?? freeId(used);
		if (id === null) {
			return {ok: false, fault: {kind: 'full'}};
		}
		if ((own !== null && own !== id) || (knownId === undefined && used.includes(id))) {
			return {ok: false, fault: {kind: 'exchanged', id: own ?? id}};
		}
		if (!noted.has(proof)) {
			fresh.push({id, proof});
		}
		used.push(id);
		ids.push(id);
		keys[id] = key;
	}

	const missing = (await sealingIds(reader)).find(id => !ids.includes(id));
	if (missing !== undefined) {
		return {ok: false, fault: {kind: 'missing', id: missing}};
	}
	return {ok: true, keys: {current: ids[0] as number, keys}, fresh};
}

/** From now on the store is used with these keys too. */
export async function noteKeys(trx: Knex.Transaction, fresh: readonly FreshKey[], now: string): Promise<void> {
	if (fresh.length > 0) {
		await trx('secret_keys').insert(fresh.map(key => ({...key, created_at: now})));
	}
}

/** The keys that open what was sealed before the store knew its keys; null: what is sealed opens with none of them. */
async function provenBySecrets(
	reader: Knex,
	configured: readonly ConfiguredKey[],
): Promise<ReadonlyMap<string, number> | null> {
	const secrets = await readSealed(reader);
	const proven = new Map<string, number>();
	for (const id of await sealingIds(reader)) {
		const key = configured.find(one => (one.id === null || one.id === id) && opensOne(one.key, id, secrets))?.key;
		if (key === undefined) {
			return null;
		}
		proven.set(proofOf(key), id);
	}
	return proven;
}

// One is enough: a single secret may be damaged.
function opensOne(key: Uint8Array, id: number, secrets: ReadonlyArray<{owner: string; sealed: string}>): boolean {
	const vault = createVault({current: id, keys: {[id]: key}});
	return secrets.some(({owner, sealed}) => {
		try {
			vault.open(owner, sealed);
			return true;
		} catch {
			return false;
		}
	});
}
