import {createPublicKey} from 'node:crypto';
import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {ActTools, Tools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import type {Vault} from '../../store/sealed.ts';
import {type Act, recordAct} from '../audit/store.ts';
import {type DkimKey, type Domain, deleteDkimKeys, insertDkimKeys, keyState, listDkimKeys} from './store.ts';

/** A domain's new private keys (PKCS #8, PEM). They are created outside of transactions, because RSA is slow. */
export type SigningKeys = {readonly rsa: string; readonly ed25519: string};

type KeysInput = {
	readonly domainId: string;
	readonly keys: SigningKeys;
	/** The selectors of the RSA and the Ed25519 key. */
	readonly selectors: readonly [string, string];
	readonly now: string;
	readonly pendingAt: string | null;
};

/** Returns the rows of a pair of keys, with encrypted private keys. */
export function keyRows({newId}: Pick<Tools, 'newId'>, vault: Vault, input: KeysInput): DkimKey[] {
	const [rsa, ed25519] = input.selectors;
	return (
		[
			[rsa, 'rsa-sha256', input.keys.rsa],
			[ed25519, 'ed25519-sha256', input.keys.ed25519],
		] as const
	).map(([selector, algorithm, privateKey]) => {
		const id = newId('dkm');
		return {
			id,
			domain_id: input.domainId,
			selector,
			algorithm,
			public_key: createPublicKey(privateKey).export({type: 'spki', format: 'pem'}).toString(),
			secret: vault.seal(id, privateKey),
			active_from: input.now,
			pending_at: input.pendingAt,
			retired_at: null,
			seen_at: null,
			created_at: input.now,
		};
	});
}

type Rotation =
	| {readonly kind: 'begun'; readonly keys: readonly DkimKey[]}
	/** The keys of an earlier rotation are not published yet. */
	| {readonly kind: 'under_way'; readonly selectors: readonly string[]}
	| {readonly kind: 'selector_taken'; readonly selector: string};

/** Starts a rotation with new keys that sign once they are published. The old ones sign until then (R5.3). */
export async function rotateKeys(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{domain, keys, selector}: {domain: Domain; keys: SigningKeys; selector: string | null},
): Promise<Rotation> {
	const known = await listDkimKeys(trx, domain.id);
	const waiting = known.filter(key => keyState(key) === 'pending');
	if (waiting.length > 0) {
		return {kind: 'under_way', selectors: waiting.map(key => key.selector)};
	}
	const used = new Set(known.map(key => key.selector));
	const selectors = selector === null ? freeSelectors(used) : ([selector, `${selector}-ed25519`] as const);
	const clash = selectors.find(each => used.has(each));
	if (clash !== undefined) {
		return {kind: 'selector_taken', selector: clash};
	}
	const now = storeTime(tools.clock.now());
	const rows = keyRows(tools, vault, {domainId: domain.id, keys, selectors, now, pendingAt: now});
	await insertDkimKeys(trx, rows);
	await recordAct(trx, tools, keyAct('domain.key_rotated', domain, selectors));
	await bumpGeneration(trx);
	return {kind: 'begun', keys: rows};
}

/** Cancels a rotation and deletes its keys. Returns their selectors, which are empty if there was no rotation. */
export async function cancelRotation(trx: Knex.Transaction, tools: ActTools, domain: Domain): Promise<string[]> {
	const waiting = (await listDkimKeys(trx, domain.id)).filter(key => keyState(key) === 'pending');
	await deleteDkimKeys(
		trx,
		waiting.map(({id}) => id),
	);
	await bumpGeneration(trx);
	const selectors = waiting.map(({selector}) => selector);
	if (selectors.length > 0) {
		await recordAct(trx, tools, keyAct('domain.rotation_cancelled', domain, selectors));
	}
	return selectors;
}

function keyAct(action: string, {id, name, workspace_id: workspaceId}: Domain, selectors: readonly string[]): Act {
	return {action, workspaceId, target: id, detail: {name, selectors}};
}

// Numbers above all those in use, because DNS may still cache the record of a selector that was used before.
function freeSelectors(used: ReadonlySet<string>): [string, string] {
	const lastNumber = Math.max(0, ...[...used].map(selector => Number(/^mc(\d{1,9})$/.exec(selector)?.[1] ?? 0)));
	return [`mc${lastNumber + 1}`, `mc${lastNumber + 2}`];
}
