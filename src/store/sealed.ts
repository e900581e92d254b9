import {createCipheriv, createDecipheriv, randomBytes} from 'node:crypto';
import type {Knex} from 'knex';
import {withPasswords} from '../mail/route-choice.ts';

/** Master keys by id; `current` seals, every one of them opens. */
export type MasterKeys = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

/** Secrets at rest: DKIM keys and webhook secrets are readable only with the key that lives outside the database. */
export type Vault = {
	/** The id of the key that seals. */
	readonly current: () => number;
	/** `owner` (the row's id) is authenticated, so that a sealed value cannot be moved to another row. */
	readonly seal: (owner: string, plain: string) => string;
	/** Throws if the value was sealed by another key, for another owner, or was changed. */
	readonly open: (owner: string, sealed: string) => string;
};

export type VaultOptions = {
	readonly random?: (size: number) => Buffer;
	/** Reads the keys again where a value needs one that is not known: they may have been rotated since. */
	readonly reread?: () => MasterKeys;
};

const ivLength = 12;
const tagLength = 16;

/** AES-256-GCM; the text is `v1.<key id>.<base64url of iv ‖ tag ‖ ciphertext>`. */
export function createVault(first: MasterKeys, {random = randomBytes, reread}: VaultOptions = {}): Vault {
	let {current, keys} = first;
	function keyOf(id: number): Uint8Array {
		if (!Object.hasOwn(keys, id) && reread) {
			const now = reread();
			current = now.current;
			keys = {...keys, ...now.keys};
		}
		if (!Object.hasOwn(keys, id)) {
			throw unopened(`The store holds a secret sealed with key ${id}, which is not among the secret keys.`);
		}
		return keys[id] as Uint8Array;
	}
	return {
		current: () => current,
		seal(owner, plain) {
			const iv = random(ivLength);
			const cipher = createCipheriv('aes-256-gcm', keyOf(current), iv).setAAD(Buffer.from(owner));
			const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
			return `v1.${current}.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')}`;
		},
		open(owner, sealed) {
			const [version, id, body] = sealed.split('.');
			if (version !== 'v1' || id === undefined || body === undefined) {
				throw unopened(`The secret of ${owner} in the store is damaged.`);
			}
			const key = keyOf(Number(id));
			const bytes = Buffer.from(body, 'base64url');
			try {
				const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivLength))
					.setAAD(Buffer.from(owner))
					.setAuthTag(bytes.subarray(ivLength, ivLength + tagLength));
				return decipher.update(bytes.subarray(ivLength + tagLength), undefined, 'utf8') + decipher.final('utf8');
			} catch {
				throw unopened(`The secret of ${owner} in the store is damaged.`);
			}
		},
	};
}

function unopened(message: string): Error {
	return Object.assign(new Error(message), {code: 'SEALED_SECRET'});
}

/** A column that holds secrets, sealed for the row's id. */
export type SealedColumn = {
	readonly table: 'dkim_keys' | 'webhook_endpoints' | 'workspaces' | 'users';
	readonly column: string;
	/** Octets at its beginning that name the keys of all secrets in it. */
	readonly head: number;
	/** Puts each sealed secret of a value through `change`. */
	readonly each: (value: string, change: (sealed: string) => string) => string;
};

/** `v1.255.` */
const sealedHead = 7;
const whole = (value: string, change: (sealed: string) => string) => change(value);

/** Every column that a vault seals: DKIM keys, secrets of webhooks, passwords of smarthosts, secrets of one-time codes. */
export const sealedColumns: readonly SealedColumn[] = [
	{table: 'dkim_keys', column: 'secret', head: sealedHead, each: whole},
	{table: 'webhook_endpoints', column: 'secret', head: sealedHead, each: whole},
	{table: 'webhook_endpoints', column: 'previous_secret', head: sealedHead, each: whole},
	{table: 'workspaces', column: 'route', head: 65_536, each: withPasswords},
	{table: 'users', column: 'totp', head: sealedHead, each: whole},
];

/** The id of the key that sealed it; null: it is no sealed secret. */
export function sealingIdOf(sealed: string): number | null {
	const [, id] = /^v1\.([1-9]\d{0,2})\./.exec(sealed) ?? [];
	return id === undefined ? null : Number(id);
}

/** The ids of the keys that sealed something in the store. */
export async function sealingIds(reader: Knex): Promise<number[]> {
	const ids = new Set<number>();
	for (const {table, column, head, each} of sealedColumns) {
		const heads: Array<{value: string}> = await reader(table)
			.whereNotNull(column)
			.distinct(reader.raw('substr(??, 1, ?) as value', [column, head]));
		for (const {value} of heads) {
			each(value, sealed => {
				const id = sealingIdOf(sealed);
				if (id !== null) {
					ids.add(id);
				}
				return sealed;
			});
		}
	}
	return [...ids].sort((a, b) => a - b);
}

/** Every secret of the store, with the id that it is sealed for. */
export async function readSealed(reader: Knex): Promise<Array<{owner: string; sealed: string}>> {
	const secrets: Array<{owner: string; sealed: string}> = [];
	for (const {table, column, each} of sealedColumns) {
		const rows: Array<{id: string; value: string}> = await reader(table)
			.whereNotNull(column)
			.select('id', {value: column});
		for (const {id: owner, value} of rows) {
			each(value, sealed => {
				secrets.push({owner, sealed});
				return sealed;
			});
		}
	}
	return secrets;
}

/** What one step of re-sealing did; `last` is where the next one starts, null at the end. */
export type Resealed = {readonly resealed: number; readonly damaged: readonly string[]; readonly last: string | null};

/**
 * Seals the secrets of up to `most` rows of a column anew, by the vault's first key, in the order of their ids. What is
 * sealed by it stays, and so does what cannot be opened (`damaged`: the ids of those rows).
 */
export async function resealRows(
	trx: Knex.Transaction,
	{table, column, each}: SealedColumn,
	vault: Vault,
	{after, most}: {readonly after: string; readonly most: number},
): Promise<Resealed> {
	const rows: Array<{id: string; value: string}> = await trx(table)
		.where('id', '>', after)
		.whereNotNull(column)
		.orderBy('id')
		.limit(most)
		.select('id', {value: column});
	const damaged: string[] = [];
	let resealed = 0;
	for (const {id, value} of rows) {
		const next = resealedValue(id, value, each, vault);
		if (next === null) {
			damaged.push(id);
		} else if (next !== value) {
			// Unless another node has changed it meanwhile.
			resealed += await trx(table)
				.where({id, [column]: value})
				.update({[column]: next});
		}
	}
	return {resealed, damaged, last: rows.length === most ? (rows.at(-1)?.id ?? null) : null};
}

function resealedValue(owner: string, value: string, each: SealedColumn['each'], vault: Vault): string | null {
	try {
		return each(value, sealed =>
			sealingIdOf(sealed) === vault.current() ? sealed : vault.seal(owner, vault.open(owner, sealed)),
		);
	} catch {
		return null;
	}
}
