import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import type {Pair} from './engine/pairs.ts';

/** What keeps mail from an address, as far as it concerns one message; null where there is nothing such. */
export type StandingRow = {
	/** Of the message; null: it is gone. */
	readonly mode: Mode | null;
	readonly topicCode: string | null;
	readonly topicName: string | null;
	readonly optOutSource: string | null;
	readonly reason: SuppressionReason | null;
	readonly source: string | null;
};

/** Undefined: there is no such workspace. */
export async function findStanding(
	reader: Knex,
	[workspaceId, addressKey]: Pair,
	{messageId, topicId}: {readonly messageId: string; readonly topicId: string | null},
): Promise<StandingRow | undefined> {
	return await reader('workspaces as w')
		.leftJoin('messages as m', function () {
			this.on('m.workspace_id', 'w.id').andOnVal('m.id', messageId);
		})
		.leftJoin('topics as t', function () {
			this.on('t.workspace_id', 'w.id').andOnVal('t.id', topicId ?? '');
		})
		.leftJoin('topic_optouts as o', function () {
			this.on('o.workspace_id', 'w.id').andOnVal('o.address_key', addressKey).andOn('o.code', 't.code');
		})
		.leftJoin('suppressions as s', function () {
			this.on('s.workspace_id', 'w.id').andOnVal('s.address_key', addressKey).andOnVal('s.mode', 'live');
		})
		.where('w.id', workspaceId)
		.first('m.mode', 't.code as topicCode', 't.name as topicName', 'o.source as optOutSource', 's.reason', 's.source');
}
