import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';

// What every request and every send looks up: read through caches, so each query is for one row.

export type KeyRow = {
	readonly id: string;
	readonly workspace_id: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	readonly rate_limit: string | null;
	readonly expires_at: string | null;
	readonly revoked_at: string | null;
};

export type SenderRow = {
	readonly id: string;
	readonly verified_at: string | null;
	readonly disabled_at: string | null;
};

export type TemplateRow = {
	readonly id: string;
	/** The newest version; null: none was saved. */
	readonly version_id: string | null;
};

export type TopicRow = {readonly id: string; readonly code: string};

export async function findKey(reader: Knex, hash: string): Promise<KeyRow | undefined> {
	const row = await reader('api_keys')
		.where({hash})
		.first('id', 'workspace_id', 'mode', 'scopes', 'rate_limit', 'expires_at', 'revoked_at');
	return row && {...row, scopes: JSON.parse(row.scopes)};
}

/** A sender is verified when its domain is, or when an operator said so. */
export async function lookUpSender(
	reader: Knex,
	workspaceId: string,
	addressKey: string,
): Promise<SenderRow | undefined> {
	return await reader('senders as s')
		.join('domains as d', 'd.id', 's.domain_id')
		.where({'s.workspace_id': workspaceId, 's.address_key': addressKey})
		.first('s.id', 's.disabled_at', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

export async function lookUpTemplate(reader: Knex, workspaceId: string, id: string): Promise<TemplateRow | undefined> {
	return await reader('templates as t')
		.leftJoin('template_versions as v', function () {
			this.on('v.template_id', 't.id').andOn('v.version', 't.latest_version');
		})
		.where({'t.id': id, 't.workspace_id': workspaceId})
		.whereNull('t.deleted_at')
		.first('t.id', 'v.id as version_id');
}

export async function lookUpTopic(reader: Knex, workspaceId: string, code: string): Promise<TopicRow | undefined> {
	return await reader('topics').where({workspace_id: workspaceId, code}).first('id', 'code');
}
