import type {ActTools, Role} from '../../src/mail/operator.ts';
import {performIn} from '../../src/resources/operation.ts';
import {addUser, everyWorkspace, type Linked} from '../../src/resources/users/rules.ts';
import type {Store} from '../../src/store/store.ts';
import {everywhere} from './tools.ts';

type NewUser = {
	readonly email: string;
	readonly role?: Role;
	readonly workspaceId?: string | null;
	/** The workspace of the admin who adds the user; `null` for an operator of the installation. */
	readonly by?: string | null;
};

/** Adds a user of a workspace, or of all of them. */
export async function newUser(
	{writer}: Pick<Store, 'writer'>,
	tools: ActTools,
	{email, role = 'admin', workspaceId, by = null}: NewUser,
): Promise<Linked> {
	const input = {email, role, workspace: workspaceId ?? everyWorkspace};
	return await writer.transaction(trx => performIn(addUser, {...everywhere(tools), workspaceId: by, trx}, input));
}
