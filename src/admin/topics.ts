import type {Knex} from 'knex';
import {storeTime} from '../mail/time.ts';
import {bumpGeneration} from '../store/changes.ts';
import {deleteTopic, insertTopic, type Topic} from '../store/topics.ts';
import type {Tools} from './tools.ts';

/** Opt-outs of an earlier topic with this code hold again. Undefined: the workspace has a topic with the code. */
export async function createTopic(
	trx: Knex.Transaction,
	{clock, newId}: Tools,
	{workspaceId, code, name}: {readonly workspaceId: string; readonly code: string; readonly name: string},
): Promise<Topic | undefined> {
	const created_at = storeTime(clock.now());
	const topic = {id: newId('usg'), workspace_id: workspaceId, code, name, created_at};
	if (!(await insertTopic(trx, topic))) {
		return undefined;
	}
	await bumpGeneration(trx);
	return topic;
}

/** Nobody's opt-out is forgotten with the topic. Undefined: there is no such topic. */
export async function removeTopic(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly code: string},
): Promise<Topic | undefined> {
	const removed = await deleteTopic(trx, workspaceId, by);
	if (removed) {
		await bumpGeneration(trx);
	}
	return removed;
}
