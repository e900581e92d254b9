import {join} from 'node:path';
import {openStore} from '../../src/store/store.ts';
import type {Program} from './daemon.ts';
import {newId} from './workspace.ts';

/** Adds a topic to the only workspace of a program's data folder, beside the daemon that runs on it. */
export async function addTopic({folder}: Program, code: string, name: string): Promise<void> {
	const store = await openStore({file: join(folder, 'data', 'mailctl.db')});
	const {id: workspaceId} = await store.database('workspaces').first('id');
	const created_at = new Date().toISOString();
	await store.database('topics').insert({id: newId('usg'), workspace_id: workspaceId, code, name, created_at});
	await store.close();
}
