import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {ActTools} from '../../mail/operator.ts';
import {recordAct} from '../audit/store.ts';
import {type Contact, findContact, type Preferences, updateContact} from '../topics/store.ts';

/** Changes the given preferences; `null` clears one. Returns `undefined` if the contact does not exist. */
export async function changeContact(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, id}: {readonly workspaceId: string; readonly id: string},
	changes: Partial<Preferences>,
): Promise<Contact | undefined> {
	const changed = Object.keys(changes);
	const updatedAt = storeTime(tools.clock.now());
	if (changed.length > 0 && (await updateContact(trx, workspaceId, id, {...changes, updated_at: updatedAt}))) {
		await recordAct(trx, tools, {action: 'contact.updated', workspaceId, target: id, detail: {changed}});
	}
	return await findContact(trx, workspaceId, id, updatedAt);
}
