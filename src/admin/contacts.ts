import type {Knex} from 'knex';
import {storeTime} from '../mail/time.ts';
import {type Contact, findContact, type Preferences, updateContact} from '../store/contacts.ts';
import type {Tools} from './tools.ts';

/** Changes what is given; null clears it. Undefined: the workspace has no such contact. */
export async function changeContact(
	trx: Knex.Transaction,
	{clock}: Tools,
	{workspaceId, id}: {readonly workspaceId: string; readonly id: string},
	changes: Partial<Preferences>,
): Promise<Contact | undefined> {
	if (Object.keys(changes).length > 0) {
		await updateContact(trx, workspaceId, id, {...changes, updated_at: storeTime(clock.now())});
	}
	return await findContact(trx, workspaceId, id);
}
