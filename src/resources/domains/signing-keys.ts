import {createPublicKey} from 'node:crypto';
import type {Tools} from '../../mail/operator.ts';
import type {Vault} from '../../store/sealed.ts';
import type {DkimKey} from './store.ts';

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

/**
 * Returns unused selectors. Their numbers are above all those in use, because DNS may still cache the record of a
 * selector that was used before.
 */
export function freeSelectors(used: ReadonlySet<string>): [string, string] {
	const lastNumber = Math.max(0, ...[...used].map(selector => Number(/^mc(\d{1,9})$/.exec(selector)?.[1] ?? 0)));
	return [`mc${lastNumber + 1}`, `mc${lastNumber + 2}`];
}
