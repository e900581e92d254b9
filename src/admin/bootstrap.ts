import {fileURLToPath} from 'node:url';
import {generateSigningKeys} from '../compose/dkim-key.ts';
import {parseAddress} from '../mail/address.ts';
import type {Mode} from '../mail/message.ts';
import {scopes} from '../mail/scopes.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {hasWorkspace} from '../store/workspaces.ts';
import {createKey} from './keys.ts';
import {addSender} from './senders.ts';
import {readTemplates} from './template-folder.ts';
import {saveTemplate} from './templates.ts';
import type {Tools} from './tools.ts';
import {createWorkspace} from './workspaces.ts';

/** What a fresh store was given, for the one time that its keys can be shown. */
export type Bootstrapped = {
	readonly workspaceId: string;
	readonly sender: string;
	readonly templateId: string;
	readonly liveKey: string;
	readonly testKey: string;
};

const sender = 'hello@example.com';
const sampleFolder = fileURLToPath(new URL('../../../config/sample-template', import.meta.url));

/**
 * Gives a store without any workspace what a first mail needs: workspace, verified sender, template, two keys. Null: there
 * is a workspace already. Of two processes that try at once one does it.
 */
export async function bootstrap(store: Store, tools: Tools, vault: Vault): Promise<Bootstrapped | null> {
	if (await hasWorkspace(store.reader)) {
		return null;
	}
	const [keys, sample] = await Promise.all([generateSigningKeys(), readTemplates(sampleFolder)]);
	const template = sample.ok ? sample.templates[0] : undefined;
	const address = parseAddress(sender, {utf8Local: false});
	if (!template || !address.ok) {
		throw new Error(`The sample template in ${sampleFolder} cannot be used.`);
	}

	return await store.writer.transaction(async trx => {
		// The name is unique: on PostgreSQL a second process waits here until the first one's transaction has ended.
		const workspace = (await hasWorkspace(trx)) ? undefined : await createWorkspace(trx, tools, {name: 'default'});
		if (!workspace) {
			return null;
		}
		const workspaceId = workspace.id;
		await addSender(trx, tools, vault, {
			workspaceId,
			address: address.address,
			name: null,
			verified: true,
			newKeys: async () => keys,
		});
		const saved = await saveTemplate(trx, tools, {workspaceId, ...template, name: 'sample'});
		const key = async (mode: Mode) => {
			const input = {workspaceId, name: 'first', mode, scopes, rateLimit: null, expiresAt: null};
			return (await createKey(trx, tools, input)).key;
		};
		return {workspaceId, sender, templateId: saved.id, liveKey: await key('live'), testKey: await key('test')};
	});
}
