import {createPublicKey} from 'node:crypto';
import type {Knex} from 'knex';
import {storeTime} from '../mail/time.ts';
import {bumpGeneration} from '../store/changes.ts';
import {type DkimKey, insertDkimKeys} from '../store/dkim-keys.ts';
import {type Domain, insertDomain} from '../store/domains.ts';
import type {Vault} from '../store/sealed.ts';
import type {Tools} from './tools.ts';

/** A domain's new private keys (PKCS #8, PEM); made outside of a transaction because RSA takes a while. */
export type SigningKeys = {readonly rsa: string; readonly ed25519: string};

export type DomainInput = {readonly workspaceId: string; readonly name: string; readonly keys: SigningKeys};

/** Adds a domain with its two DKIM keys, in use at once: mail is signed before DNS is verified. Undefined: it is there already. */
export async function addDomain(
	trx: Knex.Transaction,
	{clock, newId, random}: Tools,
	vault: Vault,
	{workspaceId, name, keys}: DomainInput,
): Promise<{domain: Domain; keys: DkimKey[]} | undefined> {
	const now = storeTime(clock.now());
	const domain: Domain = {
		id: newId('dom'),
		workspace_id: workspaceId,
		name,
		ownership_token: random(20).toString('hex'),
		return_path_domain: null,
		state: 'pending',
		state_at: now,
		verified_at: null,
		checked_at: null,
		failures: 0,
		created_at: now,
	};
	if (!(await insertDomain(trx, domain))) {
		return undefined;
	}
	const rows = (
		[
			['mc1', 'rsa-sha256', keys.rsa],
			['mc2', 'ed25519-sha256', keys.ed25519],
		] as const
	).map(([selector, algorithm, privateKey]): DkimKey => {
		const id = newId('dkm');
		return {
			id,
			domain_id: domain.id,
			selector,
			algorithm,
			public_key: createPublicKey(privateKey).export({type: 'spki', format: 'pem'}).toString(),
			secret: vault.seal(id, privateKey),
			active_from: now,
			retired_at: null,
			created_at: now,
		};
	});
	await insertDkimKeys(trx, rows);
	await bumpGeneration(trx);
	return {domain, keys: rows};
}
