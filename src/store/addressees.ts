import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import type {Preferences} from './contacts.ts';
import {type Pair, pairKey, selectOfPairs} from './engine/pairs.ts';

/** What a workspace knows of an address that it is to mail. */
export type Addressee = {
	/** Of its entry on the suppression list; null: it has none. */
	readonly suppressed: Mode | null;
	/** Of its contact; undefined: there is none yet. */
	readonly preferences: Preferences | undefined;
};

type Row = Preferences & {
	readonly workspace_id: string;
	readonly address_key: string;
	readonly suppressed: Mode | null;
	readonly contact: string | null;
};

/** By `pairKey`, all that a send asks of its addresses: one statement. */
export async function readAddressees(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Addressee>> {
	const rows = await selectOfPairs<Row>(
		trx,
		pairs,
		source =>
			`select p.column1 as workspace_id, p.column2 as address_key, s.mode as suppressed, c.id as contact, c.locale, c.timezone
			from (${source}) as p
			left join suppressions as s on s.workspace_id = p.column1 and s.address_key = p.column2
			left join contacts as c on c.workspace_id = p.column1 and c.address_key = p.column2`,
	);
	return new Map(
		rows.map(({workspace_id, address_key, suppressed, contact, locale, timezone}) => [
			pairKey(workspace_id, address_key),
			{suppressed, preferences: contact === null ? undefined : {locale, timezone}},
		]),
	);
}
