import type {Knex} from 'knex';
import {bumpGeneration} from '../store/changes.ts';
import {resealRows, type SealedColumn, sealedColumns, type Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';

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
	const rows = {dkim_keys: 0, webhook_endpoints: 0, workspaces: 0, users: 0};
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
			onStep(rows.dkim_keys + rows.webhook_endpoints + rows.workspaces + rows.users);
		}
	}
	return {rows, damaged};
}
