import {generateSigningKeys} from '../compose/dkim.ts';
import {addSender} from '../domains/senders.ts';
import {parseAddress} from '../mail/address.ts';
import type {Mode} from '../mail/message.ts';
import type {ActTools} from '../mail/operator.ts';
import {createKey} from '../ops/keys.ts';
import {performIn} from '../ops/operation.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {hasWorkspace} from '../store/workspaces.ts';
import {addUser} from '../users/users.ts';
import {readSample, sampleSender, sampleTemplate} from './sample.ts';
import {saveTemplate} from './templates.ts';
import {createWorkspace} from './workspaces.ts';

/** What a fresh store was given, for the one time that its keys can be shown. */
export type Bootstrapped = {
	readonly workspaceId: string;
	/** Null: mail leaves this machine, so that only an address of the operator's own will do. */
	readonly sender: string | null;
	readonly templateId: string;
	readonly liveKey: string;
	readonly testKey: string;
	/** Of a link that logs in to the dashboard; null: there is no dashboard. */
	readonly logInToken: string | null;
};

/** The first user: the person who starts the program may do everything, and adds the other users. */
export const firstUser = 'admin@localhost';

/**
 * Gives a store without any workspace what a first mail needs: workspace, template, two keys, the dashboard's first user and,
 * where mail is captured, a verified sender of a reserved domain. Null: there is a workspace already. Of two processes
 * that try at once one does it.
 */
export async function bootstrap(
	store: Store,
	tools: ActTools,
	vault: Vault,
	{captures, dashboard}: {readonly captures: boolean; readonly dashboard: boolean},
): Promise<Bootstrapped | null> {
	if (await hasWorkspace(store.reader)) {
		return null;
	}
	const [keys, template] = await Promise.all([captures ? generateSigningKeys() : null, readSample()]);
	const address = parseAddress(sampleSender, {utf8Local: false});
	if (!address.ok) {
		throw new Error(`${sampleSender} is no address.`);
	}

	return await store.writer.transaction(async trx => {
		// The name is unique: on PostgreSQL a second process waits here until the first one's transaction has ended.
		const workspace = (await hasWorkspace(trx)) ? undefined : await createWorkspace(trx, tools, {name: 'default'});
		if (!workspace) {
			return null;
		}
		const workspaceId = workspace.id;
		if (keys) {
			await addSender(trx, tools, vault, {
				workspaceId,
				address: address.address,
				name: null,
				verified: true,
				newKeys: async () => keys,
			});
		}
		const saved = await saveTemplate(trx, tools, {workspaceId, ...template, name: sampleTemplate});
		const key = async (mode: Mode) => {
			const scene = {face: 'cli', workspaceId, mode, tools, trx} as const;
			return (await performIn(createKey, scene, {name: 'first', mode})).key;
		};
		const first = {email: firstUser, role: 'admin', workspaceId: null} as const;
		return {
			workspaceId,
			sender: captures ? sampleSender : null,
			templateId: saved.id,
			liveKey: await key('live'),
			testKey: await key('test'),
			logInToken: dashboard ? ((await addUser(trx, tools, first))?.token ?? null) : null,
		};
	});
}
