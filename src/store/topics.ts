import type {Knex} from 'knex';
import {alongIndex} from './engine/along-index.ts';
import {type Pair, pairKey, selectPairs} from './engine/pairs.ts';

/** A row of `topics`. */
export type Topic = {
	readonly id: string;
	readonly workspace_id: string;
	readonly code: string;
	readonly name: string;
	readonly created_at: string;
};

/** What a send needs of its topic. */
export type TopicRow = Pick<Topic, 'id' | 'code'>;

/** Read by sends, through a cache. */
export async function lookUpTopic(reader: Knex, workspaceId: string, code: string): Promise<TopicRow | undefined> {
	return await reader('topics').where({workspace_id: workspaceId, code}).first('id', 'code');
}

/** False: the workspace has a topic with this code. */
export async function insertTopic(trx: Knex.Transaction, topic: Topic): Promise<boolean> {
	const inserted = await trx('topics').insert(topic).onConflict(['workspace_id', 'code']).ignore().returning('id');
	return inserted.length === 1;
}

export type TopicPage = {
	readonly workspaceId: string;
	/** Topics that follow this id; null: from the newest. */
	readonly after: string | null;
	readonly limit: number;
};

/** Newest first, along `topics_by_workspace`. */
export async function listTopics(reader: Knex, page: TopicPage): Promise<Topic[]> {
	return await topicListQuery(reader, page);
}

export function topicListQuery(reader: Knex, {workspaceId, after, limit}: TopicPage): Knex.QueryBuilder {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return alongIndex(reader, 'topics', index, {below: after}).limit(limit);
}

/** Gives a topic another name. Undefined: the workspace has no such topic. */
export async function renameStoredTopic(
	trx: Knex.Transaction,
	workspaceId: string,
	code: string,
	name: string,
): Promise<Topic | undefined> {
	const [renamed] = await trx('topics').where({workspace_id: workspaceId, code}).update({name}).returning('*');
	return renamed;
}

/** Removes a topic and answers it; its opt-outs stay. Undefined: the workspace has no such topic. */
export async function deleteTopic(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly code: string},
): Promise<Topic | undefined> {
	const topic: Topic | undefined = await trx('topics')
		.where({...by, workspace_id: workspaceId})
		.first();
	return topic && (await trx('topics').where({id: topic.id}).delete()) === 1 ? topic : undefined;
}

/** The topic codes that each of the addresses opted out of, by `pairKey`. An opt-out outlives its topic. */
export async function findOptedOut(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Set<string>>> {
	const codes = new Map<string, Set<string>>();
	for (const row of await selectPairs<{code: string}>(trx, 'topic_optouts', ['code'], pairs)) {
		const key = pairKey(row.workspace_id, row.address_key);
		codes.set(key, (codes.get(key) ?? new Set()).add(row.code));
	}
	return codes;
}

export type NewOptOut = {
	readonly workspaceId: string;
	readonly code: string;
	readonly address: string;
	readonly addressKey: string;
	readonly source: string;
	readonly createdAt: string;
};

/** Opts an address out of a topic; false: it was already, and its opt-out stays as it is. */
export async function insertOptOut(trx: Knex.Transaction, optOut: NewOptOut): Promise<boolean> {
	const inserted = await trx('topic_optouts')
		.insert({
			workspace_id: optOut.workspaceId,
			code: optOut.code,
			address_key: optOut.addressKey,
			address: optOut.address,
			source: optOut.source,
			created_at: optOut.createdAt,
		})
		.onConflict(['workspace_id', 'address_key', 'code'])
		.ignore()
		.returning('code');
	return inserted.length === 1;
}

/** Takes an opt-out of this source back. */
export async function deleteOptOut(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{code, source}: {readonly code: string; readonly source: string},
): Promise<void> {
	await trx('topic_optouts').where({workspace_id: workspaceId, address_key: addressKey, code, source}).delete();
}

/** How many addresses opted out, by code: also of topics that are gone. */
export async function countOptOuts(reader: Knex, workspaceId: string): Promise<Map<string, number>> {
	const rows: Array<{code: string; addresses: number | string}> = await reader('topic_optouts')
		.where({workspace_id: workspaceId})
		.groupBy('code')
		.select('code')
		.count('* as addresses');
	return new Map(rows.map(({code, addresses}) => [code, Number(addresses)]));
}

/** Forgets at most `limit` opt-outs of a code; how many there were. */
export async function purgeOptOuts(
	trx: Knex.Transaction,
	workspaceId: string,
	code: string,
	limit: number,
): Promise<number> {
	const some = trx('topic_optouts').where({workspace_id: workspaceId, code}).select('address_key').limit(limit);
	return await trx('topic_optouts').where({workspace_id: workspaceId, code}).whereIn('address_key', some).delete();
}
