import type {Knex} from 'knex';

/** A row of `passkeys`. */
export type Passkey = {
	readonly id: string;
	readonly user_id: string;
	/** What the authenticator calls it, base64url. */
	readonly credential_id: string;
	/** In the form of COSE (RFC 9052 §7). */
	readonly public_key: Uint8Array;
	/** How often the authenticator says that it was used, a decimal number. */
	readonly counter: string;
	readonly name: string;
	readonly created_at: string;
	readonly used_at: string | null;
};

/** False: it is there already. */
export async function insertPasskey(trx: Knex.Transaction, passkey: Passkey): Promise<boolean> {
	const row = {...passkey, public_key: Buffer.from(passkey.public_key)};
	return (await trx('passkeys').insert(row).onConflict('credential_id').ignore().returning('id')).length === 1;
}

export async function findPasskey(reader: Knex, credentialId: string): Promise<Passkey | undefined> {
	return await reader('passkeys').where({credential_id: credentialId}).first();
}

/** Oldest first. */
export async function listPasskeys(reader: Knex, userId: string): Promise<Passkey[]> {
	return await reader('passkeys').where({user_id: userId}).orderBy('id');
}

/** Compare-and-set: notes a use. False: it was used meanwhile, or is gone. */
export async function usePasskey(
	trx: Knex.Transaction,
	{id, counter: before}: Pick<Passkey, 'id' | 'counter'>,
	{counter, used_at}: Pick<Passkey, 'counter' | 'used_at'>,
): Promise<boolean> {
	return (await trx('passkeys').where({id, counter: before}).update({counter, used_at})) === 1;
}

/** Undefined: the user has no such passkey. */
export async function deletePasskey(trx: Knex.Transaction, userId: string, id: string): Promise<Passkey | undefined> {
	const passkey: Passkey | undefined = await trx('passkeys').where({user_id: userId, id}).first();
	return passkey && (await trx('passkeys').where({id}).delete()) === 1 ? passkey : undefined;
}
