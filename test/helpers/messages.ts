import type {Knex} from 'knex';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {insertRows} from '../../src/store/engine/rows.ts';
import {insertRecipients} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';

export const newId = createIdSource(systemClock);

/** An outbox whose deliveries nobody is told of. */
export const eventWriter = {newId, onDue: () => undefined};

/** A workspace with a verified sender, as raw rows: for tests of what comes after acceptance. */
export async function insertWorkspace(store: Store, name = 'test'): Promise<{workspaceId: string}> {
	const [workspaceId, domainId] = [newId('ws'), newId('dom')];
	const at = storeTime(Date.now());
	await store.writer.transaction(async trx => {
		await trx('workspaces').insert({id: workspaceId, name, created_at: at});
		await trx('domains').insert({
			id: domainId,
			workspace_id: workspaceId,
			name: 'shop.example',
			ownership_token: 'x',
			state: 'verified',
			state_at: at,
			created_at: at,
		});
		await trx('senders').insert({
			id: newId('snd'),
			workspace_id: workspaceId,
			domain_id: domainId,
			address: 'a@shop.example',
			address_key: 'a@shop.example',
			name: 'Shop',
			verified_at: at,
			created_at: at,
		});
	});
	return {workspaceId};
}

type MessageOptions = {
	readonly due?: number;
	readonly topic?: string | null;
};

/**
 * Accepted messages, one per address, without the event of it; `destination` is the address's domain. Answers the
 * message ids.
 */
export async function insertMessages(
	store: Store,
	workspaceId: string,
	addresses: readonly string[],
	options: MessageOptions = {},
): Promise<string[]> {
	return await store.writer.transaction(trx => writeMessages(trx, workspaceId, addresses, options));
}

/** The same in a transaction of others. */
export async function writeMessages(
	trx: Knex.Transaction,
	workspaceId: string,
	addresses: readonly string[],
	{due = Date.now(), topic = null}: MessageOptions = {},
): Promise<string[]> {
	const at = storeTime(due);
	const ids = addresses.map(() => newId('msg'));
	await insertRows(
		trx,
		'messages',
		[
			'id',
			'workspace_id',
			'mode',
			'from_address',
			'from_key',
			'to_address',
			'to_key',
			'template_id',
			'version_id',
			'topic_code',
			'attachments',
			'created_at',
			'position',
		],
		addresses.map((address, index) => [
			ids[index] as string,
			workspaceId,
			'live',
			'a@shop.example',
			'a@shop.example',
			address,
			address,
			'tpl_x',
			'tpv_x',
			topic,
			0,
			at,
			null,
		]),
	);
	await insertRecipients(
		trx,
		addresses.map((address, index) => ({
			id: newId('rcp'),
			workspace_id: workspaceId,
			message_id: ids[index] as string,
			address,
			address_key: address,
			role: 'to',
			destination: address.split('@')[1] as string,
			state: 'accepted',
			state_at: at,
			next_attempt_at: at,
		})),
	);
	return ids;
}
