import type {Knex} from 'knex';
import {groupBy, present} from '../../kit/collections.ts';
import type {Scope} from '../../mail/api-key.ts';
import {isListener, maxEndpoints} from '../../mail/webhook.ts';
import {listDomains, listSenders, listVerifiedByOperator} from '../domains/store.ts';
import {type ApiKey, listApiKeys} from '../keys/store.ts';
import {toValues} from '../topics/rules.ts';
import {listTopics} from '../topics/store.ts';
import {listEndpoints} from '../webhooks/store.ts';
import {toSettings} from '../workspaces/settings.ts';
import type {Workspace} from '../workspaces/store.ts';
import type {Items, WorkspaceItems} from './document.ts';

/** Existing objects with the ids of their rows. A key has several rows during the overlap of a rotation. */
export type Known = Items & {
	readonly webhook: Items['webhook'] & {readonly id: string};
	readonly key: Items['key'] & {readonly ids: readonly [string, ...string[]]};
};

export type WorkspaceState = Omit<WorkspaceItems, 'webhooks' | 'keys'> & {
	readonly webhooks: ReadonlyArray<Known['webhook']>;
	readonly keys: ReadonlyArray<Known['key']>;
};

/** The number of topics that a document may have. */
const maxTopics = 10_000;

/** Reads the state of a workspace, sorted by name and without secrets. `now` is in the store's format. */
export async function readState(reader: Knex, row: Workspace, now: string): Promise<WorkspaceState> {
	const {id, name} = row;
	const byOperator = new Set(await listVerifiedByOperator(reader, id));
	const domains = await listDomains(reader, id);
	const senders = await listSenders(reader, id);
	const topics = await listTopics(reader, {workspaceId: id, after: null, limit: maxTopics});
	const all = await listEndpoints(reader, id, {after: null, limit: maxEndpoints});
	// Listeners are skipped, because they exist only as long as the command that created them.
	const endpoints = all.filter(({url}) => !isListener(url));
	return {
		name,
		settings: toSettings(row),
		domains: sorted(
			domains.map(each => ({
				name: each.name,
				return_path_domain: each.return_path_domain,
				link_host: each.link_host,
			})),
			each => each.name,
		),
		senders: sorted(
			senders.map(each => ({
				address: each.address,
				name: each.name,
				verified: byOperator.has(each.address_key),
				active: each.disabled_at === null,
			})),
			each => each.address,
		),
		topics: sorted(topics.map(toValues), each => each.code),
		webhooks: sorted(
			endpoints.toReversed().map(each => ({
				url: each.url,
				mode: each.mode,
				events: each.events.toSorted(),
				active: each.disabledAt === null,
				format: each.format ?? ('default' as const),
				retry: each.retry ?? ('default' as const),
				id: each.id,
			})),
			each => `${each.url} ${each.mode}`,
		),
		keys: sorted(activeKeys(await listApiKeys(reader, id), now), each => `${each.name} ${each.mode}`),
	};
}

/** Returns the form that an export shows. */
export function declared(state: WorkspaceState): WorkspaceItems {
	const {domains, topics, webhooks, keys} = state;
	return {
		...state,
		domains: domains.map(({link_host, ...domain}) => ({...domain, ...(link_host && {link_host})})),
		topics: topics.map(topic => ({code: topic.code, name: topic.name, ...present(topic)})),
		webhooks: webhooks.map(({id: _id, format = 'default', retry = 'default', ...webhook}) => ({
			...webhook,
			...(format !== 'default' && {format}),
			...(retry !== 'default' && {retry}),
		})),
		keys: keys.map(({ids: _ids, ...key}) => key),
	};
}

/** Sorts by code units, so that the order is the same in both databases. Equal items remain in order of creation. */
function sorted<Item>(items: readonly Item[], by: (item: Item) => string): Item[] {
	return items.toSorted((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
}

/** Returns one key for each name and mode, with the rights of the newest row. `rows` are sorted newest first. */
function activeKeys(rows: readonly ApiKey[], now: string): Array<Known['key']> {
	const active = rows.filter(row => row.revoked_at === null && (row.expires_at === null || row.expires_at > now));
	return [...groupBy(active, ({name, mode}) => `${mode} ${name}`).values()].map(same => {
		const [newest, ...older] = same as [ApiKey, ...ApiKey[]];
		return {
			name: newest.name,
			mode: newest.mode,
			scopes: newest.scopes.toSorted() as Scope[],
			rate_limit: newest.rate_limit,
			expires_at: newest.expires_at,
			ids: [newest.id, ...older.map(({id}) => id)],
		};
	});
}
