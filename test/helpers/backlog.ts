import {storeTime} from '../../src/kit/time.ts';
import {insertRows} from '../../src/store/engine/rows.ts';
import {enqueue} from '../../src/store/queue/open-recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {newId} from './messages.ts';

export type BacklogOptions = {
	readonly workspaceId: string;
	readonly from: string;
	readonly templateId: string;
	readonly recipients: number;
	/** The destination and the due time (milliseconds) of each. */
	readonly destinationOf: (index: number) => string;
	readonly dueOf: (index: number) => number;
};

const perInsert = 5000;

/** Fills the queue with copies that were deferred twice, by as few statements as may be. */
export async function insertBacklog(store: Store, options: BacklogOptions): Promise<void> {
	const {workspaceId, from, templateId, recipients, destinationOf, dueOf} = options;
	const {id: versionId} = await store.reader('template_versions').where({template_id: templateId}).first('id');
	const at = storeTime(Date.now() - 3_600_000);
	for (let first = 0; first < recipients; first += perInsert) {
		const indexes = Array.from({length: Math.min(perInsert, recipients - first)}, (_, index) => first + index);
		const messages = indexes.map(() => newId('msg'));
		const addresses = indexes.map(index => `old${index}@${destinationOf(index)}`);
		await store.writer.transaction(async trx => {
			await insertRows(
				trx,
				'messages',
				[
					...[
						'id',
						'workspace_id',
						'mode',
						'from_address',
						'from_key',
						'to_address',
						'to_key',
						'template_id',
					],
					...['version_id', 'attachments', 'created_at'],
				],
				addresses.map((address, index) => [
					...[messages[index] as string, workspaceId, 'live', from, from, address, address, templateId],
					...[versionId, 0, at],
				]),
			);
			const recipients = indexes.map(() => newId('rcp'));
			await enqueue(
				trx,
				indexes.map((index, position) => ({
					recipientId: recipients[position] as string,
					workspaceId,
					destination: destinationOf(index),
					nextAttemptAt: storeTime(dueOf(index)),
				})),
			);
			await insertRows(
				trx,
				'recipients',
				[
					...[
						'id',
						'workspace_id',
						'message_id',
						'address',
						'address_key',
						'role',
						'destination',
						'state',
						'state_at',
					],
					...['attempts', 'last_category', 'last_reply', 'crashes'],
				],
				addresses.map((address, index) => [
					...[recipients[index] as string, workspaceId, messages[index] as string, address, address, 'to'],
					...[destinationOf(first + index), 'queued', at, 2],
					...['network', 'connect ETIMEDOUT', 0],
				]),
			);
		});
	}
}
