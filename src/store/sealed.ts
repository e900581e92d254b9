import {createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes} from 'node:crypto';
import type {Knex} from 'knex';
import {withPasswords} from '../mail/route.ts';

/** Master keys by id. `current` seals; all of them can open. */
export type MasterKeys = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

/** Encrypts stored secrets, such as DKIM keys: they can only be read with a key from outside of the database. */
export type Vault = {
	/** Returns the id of the key that seals. */
	readonly current: () => number;
	/** Seals a secret. `owner` (the row's id) is authenticated: a sealed value cannot be moved to another row. */
	readonly seal: (owner: string, plain: string) => string;
	/** Opens a secret. Throws if it was sealed by another key or for another owner, or was changed. */
	readonly open: (owner: string, sealed: string) => string;
	/** Returns HMACs of a text by each key, the sealing key's first: `<name of the key>.<base64url>`. */
	readonly macs: (purpose: string, text: string) => readonly string[];
};

type VaultOptions = {
	readonly random?: (size: number) => Buffer;
	/** Reads the keys again if a value needs an unknown one: they may have been rotated. */
	readonly reread?: () => MasterKeys;
};

const ivLength = 12;
const tagLength = 16;

/** Creates a vault with AES-256-GCM. A sealed value is `v1.<key id>.<base64url of iv ‖ tag ‖ ciphertext>`. */
export function createVault(initial: MasterKeys, {random = randomBytes, reread}: VaultOptions = {}): Vault {
	let {current, keys} = initial;
	function findKey(id: number): Uint8Array {
		if (!Object.hasOwn(keys, id) && reread) {
			const latest = reread();
			current = latest.current;
			keys = {...keys, ...latest.keys};
		}
		if (!Object.hasOwn(keys, id)) {
			throw sealedSecretError(
				`A secret in the store was sealed with key ${id}, which is not configured: restore that key.`,
			);
		}
		return keys[id] as Uint8Array;
	}
	const macKeys = new Map<string, Buffer>();
	function mac(id: number, purpose: string, text: string): string {
		const name = `${id} ${purpose}`;
		const key = macKeys.get(name) ?? Buffer.from(hkdfSync('sha256', findKey(id), '', `mailctl mac ${purpose}`, 40));
		macKeys.set(name, key);
		// Not the id, because on a node with another list of keys the same id may belong to another key.
		const tag = key.subarray(32).toString('base64url');
		return `${tag}.${createHmac('sha256', key.subarray(0, 32)).update(text).digest('base64url')}`;
	}
	return {
		current: () => current,
		macs(purpose, text) {
			const otherIds = Object.keys(keys)
				.map(Number)
				.filter(id => id !== current);
			return [current, ...otherIds].map(id => mac(id, purpose, text));
		},
		seal(owner, plain) {
			const iv = random(ivLength);
			const cipher = createCipheriv('aes-256-gcm', findKey(current), iv).setAAD(Buffer.from(owner));
			const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
			return `v1.${current}.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')}`;
		},
		open(owner, sealed) {
			const [version, id, body] = sealed.split('.');
			if (version !== 'v1' || id === undefined || body === undefined) {
				throw sealedSecretError(`The secret of ${owner} in the store is damaged.`);
			}
			const key = findKey(Number(id));
			const bytes = Buffer.from(body, 'base64url');
			try {
				const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivLength))
					.setAAD(Buffer.from(owner))
					.setAuthTag(bytes.subarray(ivLength, ivLength + tagLength));
				return (
					decipher.update(bytes.subarray(ivLength + tagLength), undefined, 'utf8') + decipher.final('utf8')
				);
			} catch {
				throw sealedSecretError(`The secret of ${owner} in the store is damaged.`);
			}
		},
	};
}

function sealedSecretError(message: string): Error {
	return Object.assign(new Error(message), {code: 'SEALED_SECRET'});
}

type RowKey = 'id' | 'name' | 'directory';

/** A column with secrets, sealed for the row's key unless another column is the `owner`. */
export type SealedColumn = {
	readonly table:
		| 'dkim_keys'
		| 'webhook_endpoints'
		| 'workspaces'
		| 'users'
		| 'smarthosts'
		| 'alerts'
		| 'messages'
		| 'certificates'
		| 'acme_accounts';
	readonly column: string;
	/** The column that identifies a row; `id` if absent. */
	readonly key?: RowKey;
	readonly owner?: RowKey | 'workspace_id';
	/** How many octets at the start of a value are enough to find the key ids of all its secrets. */
	readonly head: number;
	/** Passes each sealed secret of a value through `change`. */
	readonly mapSecrets: (value: string, change: (sealed: string) => string) => string;
};

/** The length of `v1.255.` */
const sealedHead = 7;
const wholeValue = (value: string, change: (sealed: string) => string) => change(value);

/**
 * Every column that a vault seals: DKIM keys, webhook secrets, passwords of relays, secrets of one-time codes,
 * sensitive variables, keys of certificates.
 */
export const sealedColumns: readonly SealedColumn[] = [
	{table: 'dkim_keys', column: 'secret', head: sealedHead, mapSecrets: wholeValue},
	{table: 'webhook_endpoints', column: 'secret', head: sealedHead, mapSecrets: wholeValue},
	{table: 'webhook_endpoints', column: 'previous_secret', head: sealedHead, mapSecrets: wholeValue},
	{table: 'workspaces', column: 'route', head: 65_536, mapSecrets: withPasswords},
	{table: 'users', column: 'totp', head: sealedHead, mapSecrets: wholeValue},
	{table: 'smarthosts', column: 'secret', head: sealedHead, mapSecrets: wholeValue},
	{table: 'alerts', column: 'secret', head: sealedHead, mapSecrets: wholeValue},
	{table: 'messages', column: 'sealed', owner: 'workspace_id', head: sealedHead, mapSecrets: wholeValue},
	{table: 'certificates', column: 'secret', key: 'name', head: sealedHead, mapSecrets: wholeValue},
	{table: 'acme_accounts', column: 'secret', key: 'directory', head: sealedHead, mapSecrets: wholeValue},
];

/** Returns the id of the key that sealed a value; `null` if it is not a sealed secret. */
function parseKeyId(sealed: string): number | null {
	const [, id] = /^v1\.([1-9]\d{0,2})\./.exec(sealed) ?? [];
	return id === undefined ? null : Number(id);
}

/** Returns the ids of the keys that sealed something in the store. */
export async function sealingIds(reader: Knex): Promise<number[]> {
	const ids = new Set<number>();
	for (const {table, column, head, mapSecrets} of sealedColumns) {
		const heads: Array<{value: string}> = await reader(table)
			.whereNotNull(column)
			.distinct(reader.raw('substr(??, 1, ?) as value', [column, head]));
		for (const {value} of heads) {
			mapSecrets(value, sealed => {
				const id = parseKeyId(sealed);
				if (id !== null) {
					ids.add(id);
				}
				return sealed;
			});
		}
	}
	return [...ids].sort((a, b) => a - b);
}

/** Returns every secret of the store with the id that it is sealed for. */
export async function readSealed(reader: Knex): Promise<Array<{owner: string; sealed: string}>> {
	const secrets: Array<{owner: string; sealed: string}> = [];
	for (const {table, column, key = 'id', owner: ownerColumn = key, mapSecrets} of sealedColumns) {
		const rows: Array<{owner: string; value: string}> = await reader(table)
			.where(column, '<>', '')
			.select({owner: ownerColumn, value: column});
		for (const {owner, value} of rows) {
			mapSecrets(value, sealed => {
				secrets.push({owner, sealed});
				return sealed;
			});
		}
	}
	return secrets;
}

/** The result of one step of resealing. `last` is where the next one starts, `null` at the end. */
type Resealed = {readonly resealed: number; readonly damaged: readonly string[]; readonly last: string | null};

/**
 * Reseals the secrets of up to `max` rows of a column with the vault's current key, in the order of the rows' keys.
 * Values sealed by that key stay, and so do values that cannot be opened (`damaged` has the keys of those rows).
 */
export async function resealRows(
	trx: Knex.Transaction,
	{table, column, key = 'id', owner: ownerColumn = key, mapSecrets}: SealedColumn,
	vault: Vault,
	{after, max}: {readonly after: string; readonly max: number},
): Promise<Resealed> {
	const rows: Array<{id: string; owner: string; value: string}> = await trx(table)
		.where(key, '>', after)
		.where(column, '<>', '')
		.orderBy(key)
		.limit(max)
		.select({id: key, owner: ownerColumn, value: column});
	const damaged: string[] = [];
	let resealed = 0;
	for (const {id, owner, value} of rows) {
		const next = resealValue(owner, value, mapSecrets, vault);
		if (next === null) {
			damaged.push(id);
		} else if (next !== value) {
			// Compare-and-set: another node may have changed the value in the meantime.
			resealed += await trx(table)
				.where({[key]: id, [column]: value})
				.update({[column]: next});
		}
	}
	return {resealed, damaged, last: rows.length === max ? (rows.at(-1)?.id ?? null) : null};
}

function resealValue(owner: string, value: string, each: SealedColumn['mapSecrets'], vault: Vault): string | null {
	try {
		return each(value, sealed =>
			parseKeyId(sealed) === vault.current() ? sealed : vault.seal(owner, vault.open(owner, sealed)),
		);
	} catch {
		return null;
	}
}

/** A configured key. A key in `secrets.json` has its id there; the store assigns the id of MAILCTL_SECRET_KEY. */
export type ConfiguredKey = {readonly id: number | null; readonly key: Uint8Array};

/**
 * Why the keys do not fit the store: it knows none of them, one has the id of another key, a key that sealed secrets is
 * missing, or all ids are in use.
 */
export type KeyProblem =
	| {readonly kind: 'foreign'}
	| {readonly kind: 'exchanged'; readonly id: number}
	| {readonly kind: 'missing'; readonly id: number}
	| {readonly kind: 'full'};

/** A key that the store does not know yet, in the form in which it is stored. */
export type FreshKey = {readonly id: number; readonly proof: string};

type KeyMatch =
	| {readonly ok: true; readonly keys: MasterKeys; readonly fresh: readonly FreshKey[]}
	| {readonly ok: false; readonly problem: KeyProblem};

/** Returns the proof of a key, which the store retains: it identifies the key without revealing it. */
function toProof(key: Uint8Array): string {
	return Buffer.from(hkdfSync('sha256', key, '', 'mailctl secret key proof', 32)).toString('base64url');
}

/** Returns the keys that the store was used with: their ids by their proofs. */
async function readStoredKeys(reader: Knex): Promise<Map<string, number>> {
	const rows: Array<{id: number; proof: string}> = await reader('secret_keys').orderBy('id');
	return new Map(rows.map(({id, proof}) => [proof, id]));
}

/** Returns the ids that were assigned to keys, including keys that are no longer configured. */
export async function keyIds(reader: Knex): Promise<number[]> {
	return [...(await readStoredKeys(reader)).values()];
}

/** Whether the store was used with a key before. */
export async function expectsKeys(reader: Knex): Promise<boolean> {
	return (await reader('secret_keys').first('id')) !== undefined || (await sealingIds(reader)).length > 0;
}

/**
 * Compares the configured keys (the first one seals) with those that the store was used with. If none was stored, the
 * sealed values show which key is right, and an empty store accepts every key. `freeId` returns an unused id.
 */
export async function matchKeys(
	reader: Knex,
	configured: readonly ConfiguredKey[],
	freeId: (used: readonly number[]) => number | null,
): Promise<KeyMatch> {
	const stored = await readStoredKeys(reader);
	const known = stored.size > 0 ? stored : await provenBySecrets(reader, configured);
	if (known === null || (known.size > 0 && !configured.some(({key}) => known.has(toProof(key))))) {
		return {ok: false, problem: {kind: 'foreign'}};
	}

	const used = [...known.values()];
	const keys: Record<number, Uint8Array> = {};
	const ids: number[] = [];
	const fresh: FreshKey[] = [];
	for (const {id: configuredId, key} of configured) {
		const proof = toProof(key);
		const knownId = known.get(proof);
		const id = knownId ?? configuredId ?? freeId(used);
		if (id === null) {
			return {ok: false, problem: {kind: 'full'}};
		}
		if ((configuredId !== null && configuredId !== id) || (knownId === undefined && used.includes(id))) {
			return {ok: false, problem: {kind: 'exchanged', id: configuredId ?? id}};
		}
		if (!stored.has(proof)) {
			fresh.push({id, proof});
		}
		used.push(id);
		ids.push(id);
		keys[id] = key;
	}

	const missing = (await sealingIds(reader)).find(id => !ids.includes(id));
	if (missing !== undefined) {
		return {ok: false, problem: {kind: 'missing', id: missing}};
	}
	return {ok: true, keys: {current: ids[0] as number, keys}, fresh};
}

/** Stores that these keys are in use. */
export async function storeKeys(trx: Knex.Transaction, fresh: readonly FreshKey[], now: string): Promise<void> {
	if (fresh.length > 0) {
		await trx('secret_keys').insert(fresh.map(key => ({...key, created_at: now})));
	}
}

/** Returns the keys that open values sealed before the store knew its keys; `null` if none of them opens one. */
async function provenBySecrets(
	reader: Knex,
	configured: readonly ConfiguredKey[],
): Promise<ReadonlyMap<string, number> | null> {
	const secrets = await readSealed(reader);
	const proven = new Map<string, number>();
	for (const id of await sealingIds(reader)) {
		const match = configured.find(
			candidate => (candidate.id ?? id) === id && canOpenAny(candidate.key, id, secrets),
		);
		if (match === undefined) {
			return null;
		}
		proven.set(toProof(match.key), id);
	}
	return proven;
}

// One secret that opens is enough proof: others may be damaged.
function canOpenAny(key: Uint8Array, id: number, secrets: ReadonlyArray<{owner: string; sealed: string}>): boolean {
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
