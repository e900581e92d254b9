import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {apiKeyHash, createApiKey, scopes} from '../../src/mail/api-key.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import type {Mode} from '../../src/mail/message.ts';
import type {Store} from '../../src/store/store.ts';

export const newId = createIdSource(systemClock);

/** Rows that let a workspace send: what tests start from. */
export type Workspace = {
	readonly id: string;
	readonly domainId: string;
	/** Verified: `hello@example.com`. */
	readonly sender: string;
	/** With one version, numbered 1. */
	readonly templateId: string;
	readonly versionId: string;
};

const at = storeTime(Date.UTC(2026, 5, 9, 10, 15, 30, 123));

export async function addWorkspace({database}: Store, name: string): Promise<Workspace> {
	const workspace = {
		id: newId('ws'),
		domainId: newId('dom'),
		sender: 'hello@example.com',
		templateId: newId('tpl'),
		versionId: newId('tpv'),
	};
	await database('workspaces').insert({id: workspace.id, name, created_at: at});
	await database('domains').insert({
		id: workspace.domainId,
		workspace_id: workspace.id,
		name: 'example.com',
		ownership_token: 'token',
		state: 'pending',
		state_at: at,
		created_at: at,
	});
	await database('senders').insert({
		id: newId('snd'),
		workspace_id: workspace.id,
		domain_id: workspace.domainId,
		address: workspace.sender,
		address_key: workspace.sender,
		verified_at: at,
		created_at: at,
	});
	await database('templates').insert({
		id: workspace.templateId,
		public_id: workspace.templateId,
		workspace_id: workspace.id,
		name: 'welcome',
		latest_version: 1,
		created_at: at,
		updated_at: at,
	});
	await database('template_versions').insert({
		id: workspace.versionId,
		template_id: workspace.templateId,
		version: 1,
		fingerprint: 'f',
		created_at: at,
	});
	return workspace;
}

/** Adds a key and answers its text. */
export async function addKey(
	{database}: Store,
	workspaceId: string,
	{
		mode = 'live',
		...fields
	}: Partial<{mode: Mode; scopes: string; rate_limit: string; expires_at: string; revoked_at: string}> = {},
): Promise<string> {
	const key = createApiKey(mode);
	await database('api_keys').insert({
		id: newId('key'),
		workspace_id: workspaceId,
		name: 'test',
		mode,
		hash: apiKeyHash(key),
		hint: key.slice(-4),
		scopes: JSON.stringify(scopes),
		created_at: at,
		...fields,
	});
	return key;
}
