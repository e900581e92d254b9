import type {Knex} from 'knex';
import {addSecret} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import type {MasterKeys} from '../store/sealed.ts';
import {keyIds} from '../store/secret-keys.ts';
import type {Store} from '../store/store.ts';
import {ensureSecrets} from './ensure-secrets.ts';

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
