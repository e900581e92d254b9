import type {Knex} from 'knex';
import {isTemplateId} from '../mail/ids.ts';
import {isTopicCode} from '../mail/message.ts';
import {createRowCache} from '../store/changes.ts';
import {lookUpSender, type SenderRow} from '../store/domains.ts';
import {lookUpTemplate, type TemplateRow} from '../store/templates.ts';
import {lookUpTopic, type TopicRow} from '../store/topics.ts';
import {findWorkspace, type Workspace} from '../store/workspaces.ts';

type Found<Row> = Row | undefined | Promise<Row | undefined>;

/** What sends refer to, remembered until the store's change generation grows: checks must not become queries. */
export type Catalog = {
	readonly workspace: (id: string) => Found<Workspace>;
	readonly sender: (workspaceId: string, addressKey: string) => Found<SenderRow>;
	readonly template: (workspaceId: string, id: string) => Found<TemplateRow>;
	readonly topic: (workspaceId: string, code: string) => Found<TopicRow>;
	/** To be called when the generation grew. */
	readonly clear: () => void;
};

export function createCatalog(reader: Knex): Catalog {
	const workspaces = createRowCache<Workspace>();
	const senders = createRowCache<SenderRow>();
	const templates = createRowCache<TemplateRow>();
	const topics = createRowCache<TopicRow>();
	return {
		workspace: id => workspaces.get(id, () => findWorkspace(reader, id)),
		sender: (workspaceId, key) => senders.get(`${workspaceId} ${key}`, () => lookUpSender(reader, workspaceId, key)),
		template: (workspaceId, id) =>
			isTemplateId(id)
				? templates.get(`${workspaceId} ${id}`, () => lookUpTemplate(reader, workspaceId, id))
				: undefined,
		topic: (workspaceId, code) =>
			// What has not the form cannot be there, and the store need not be asked: PostgreSQL refuses some texts.
			isTopicCode(code)
				? topics.get(`${workspaceId} ${code}`, () => lookUpTopic(reader, workspaceId, code))
				: undefined,
		clear() {
			for (const cache of [workspaces, senders, templates, topics]) {
				cache.clear();
			}
		},
	};
}
