import type {Knex} from 'knex';
import {ConfigError} from '../config/config-error.ts';
import {addSecret, freeId, loadSecrets, secretKeysOf, secretsFile} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {systemClock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {bumpGeneration} from '../store/changes.ts';
import {lockSchema} from '../store/engine/dialect.ts';
import {
	type ConfiguredKey,
	expectsKeys,
	type FreshKey,
	type KeyFault,
	keyIds,
	type MasterKeys,
	matchKeys,
	noteKeys,
	resealRows,
	type SealedColumn,
	sealedColumns,
	type Vault,
} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';

type KeySettings = Pick<Settings, 'dataDir' | 'databaseUrl' | 'secretKey' | 'secretKeyFile'>;

/**
 * The secret keys, once they are known to be the store's; those that it does not know yet are noted. Throws ConfigError
 * where they are not: nothing may be made or sent with them.
 */
export async function ensureSecrets(trx: Knex.Transaction, settings: KeySettings): Promise<MasterKeys> {
	await lockSchema(trx);
	const {keys, fresh} = await matchSecrets(trx, settings);
	await noteKeys(trx, fresh, storeTime(systemClock.now()));
	return keys;
}

/** The same beside a daemon: the store is written only where it does not know a key yet. */
export async function secretsOf({reader, writer}: Store, settings: KeySettings): Promise<MasterKeys> {
	const {keys, fresh} = await matchSecrets(reader, settings);
	return fresh.length === 0 ? keys : await writer.transaction(trx => ensureSecrets(trx, settings));
}

async function matchSecrets(
	reader: Knex,
	settings: KeySettings,
): Promise<{keys: MasterKeys; fresh: readonly FreshKey[]}> {
	const matched = await matchKeys(reader, await configuredKeys(reader, settings), freeId);
	if (!matched.ok) {
		throw new ConfigError([problemOf(matched.fault, settings)]);
	}
	return matched;
}

/** The key that seals comes first. */
async function configuredKeys(reader: Knex, settings: KeySettings): Promise<ConfiguredKey[]> {
	if (settings.databaseUrl !== null) {
		return secretKeysOf(settings).map(key => ({id: null, key}));
	}
	const {current, keys} = loadSecrets({dataDir: settings.dataDir, expected: await expectsKeys(reader)});
	const all = Object.entries(keys).map(([id, key]) => ({id: Number(id), key}));
	return all.sort((a, b) => Number(b.id === current) - Number(a.id === current));
}

function problemOf(fault: KeyFault, {dataDir, databaseUrl, secretKey}: KeySettings): string {
	if (databaseUrl === null) {
		const file = secretsFile(dataDir);
		return fault.kind === 'missing'
			? `${file} lacks the key ${fault.id} that secrets in the store are sealed with: restore the file from a backup`
			: `${file} is not the one that the store was used with: restore that file from a backup`;
	}
	const name = secretKey === null ? 'MAILCTL_SECRET_KEY_FILE' : 'MAILCTL_SECRET_KEY';
	switch (fault.kind) {
		case 'missing':
			return `${name} lacks a key that secrets in the store are sealed with: add the former key at its end, or run mailctl secrets rotate with both`;
		case 'full':
			return `the store knows 255 secret keys and ${name} names a new one: name one that it knows`;
		default:
			return `${name} is not the key that the store was used with: set it as it was, a new key goes before the former one`;
	}
}

/**
 * The keys of a store in SQLite after a new one was put first in `secrets.json`. The file comes before the store: a process
 * that dies in between leaves a key that nothing is sealed with yet. The transaction holds off a second rotation.
 */
export async function addKeyToFile(
	{writer}: Pick<Store, 'writer'>,
	settings: Settings,
	record: (trx: Knex.Transaction, detail: {readonly key_id: number}) => Promise<void>,
): Promise<MasterKeys> {
	return await writer.transaction(async trx => {
		await ensureSecrets(trx, settings);
		addSecret(settings.dataDir, await keyIds(trx));
		const keys = await ensureSecrets(trx, settings);
		await record(trx, {key_id: keys.current});
		return keys;
	});
}

/** Rows sealed again by table, and the ids of rows with a secret that cannot be opened. */
export type ResealedStore = {
	readonly rows: Readonly<Record<SealedColumn['table'], number>>;
	readonly damaged: readonly string[];
};

/** Rows of one transaction: a daemon beside goes on writing. */
const rowsAtOnce = 200;

/**
 * Seals every secret of the store with the vault's first key. Many transactions: until the last one some rows are sealed
 * with a former key, which must stay configured. `record` notes the act in each of them that changes something, `onStep` is
 * called with the rows sealed so far.
 */
export async function resealStore(
	{writer}: Pick<Store, 'writer'>,
	vault: Vault,
	record: (trx: Knex.Transaction, detail: Readonly<Record<string, number>>) => Promise<void>,
	onStep: (rows: number) => void,
): Promise<ResealedStore> {
	const rows = {dkim_keys: 0, webhook_endpoints: 0, workspaces: 0, users: 0, smarthosts: 0};
	const damaged: string[] = [];
	for (const column of sealedColumns) {
		for (let after: string | null = ''; after !== null; ) {
			const from: string = after;
			const step = await writer.transaction(async trx => {
				const done = await resealRows(trx, column, vault, {after: from, most: rowsAtOnce});
				if (done.resealed > 0) {
					const sealed = {...rows, [column.table]: rows[column.table] + done.resealed};
					await record(trx, {key_id: vault.current(), ...sealed});
					await bumpGeneration(trx);
				}
				return done;
			});
			rows[column.table] += step.resealed;
			damaged.push(...step.damaged);
			after = step.last;
			onStep(Object.values(rows).reduce((sum, n) => sum + n));
		}
	}
	return {rows, damaged};
}
