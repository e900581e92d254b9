import type {Knex} from 'knex';
import type {ActTools} from '../mail/operator.ts';
import {storeTime} from '../mail/time.ts';
import {beginAct, recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {deleteTopic, insertTopic, purgeOptOuts, renameStoredTopic, type Topic} from '../store/topics.ts';

/** Opt-outs of an earlier topic with this code hold again. Undefined: the workspace has a topic with the code. */
export async function createTopic(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, code, name}: {readonly workspaceId: string; readonly code: string; readonly name: string},
): Promise<Topic | undefined> {
	const created_at = storeTime(tools.clock.now());
	const topic = {id: tools.newId('usg'), workspace_id: workspaceId, code, name, created_at};
	if (!(await insertTopic(trx, topic))) {
		return undefined;
	}
	await recordAct(trx, tools, {action: 'topic.created', workspaceId, target: topic.id, detail: {code}});
	await bumpGeneration(trx);
	return topic;
}

/** Its id, its code and who opted out of it stay. Undefined: there is no such topic. */
export async function renameTopic(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, code, name}: {readonly workspaceId: string; readonly code: string; readonly name: string},
): Promise<Topic | undefined> {
	const renamed = await renameStoredTopic(trx, workspaceId, code, name);
	if (renamed) {
		await recordAct(trx, tools, {action: 'topic.renamed', workspaceId, target: renamed.id, detail: {code, name}});
		await bumpGeneration(trx);
	}
	return renamed;
}

/** Nobody's opt-out is forgotten with the topic. Undefined: there is no such topic. */
export async function removeTopic(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	by: {readonly id: string} | {readonly code: string},
): Promise<Topic | undefined> {
	const removed = await deleteTopic(trx, workspaceId, by);
	if (removed) {
		const {id: target, code} = removed;
		await recordAct(trx, tools, {action: 'topic.removed', workspaceId, target, detail: {code}});
		await bumpGeneration(trx);
	}
	return removed;
}

const optOutsAtOnce = 1000;

/** Forgets who opted out of a code, whether it has a topic or not; how many there were. Bit by bit: others write meanwhile. */
export async function purgeTopic(
	transaction: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>,
	tools: ActTools,
	workspaceId: string,
	code: string,
): Promise<number> {
	const record = beginAct(tools, {action: 'topic.purged', workspaceId, target: code});
	let forgotten = 0;
	for (let part = optOutsAtOnce; part === optOutsAtOnce; forgotten += part) {
		part = await transaction(async trx => {
			const purged = await purgeOptOuts(trx, workspaceId, code, optOutsAtOnce);
			await record(trx, {forgotten: forgotten + purged});
			return purged;
		});
	}
	return forgotten;
}
