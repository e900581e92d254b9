import type {Knex} from 'knex';
import {isTemplateId} from '../mail/ids.ts';
import {isTopicCode, type Priority} from '../mail/message.ts';
import {lookUpSender, type SenderRow} from '../resources/domains/store.ts';
import {lookUpTemplate, type TemplateRow} from '../resources/templates/store.ts';
import {lookUpTopic, type TopicRow} from '../resources/topics/store.ts';
import {findWorkspace, type Workspace} from '../resources/workspaces/store.ts';
import {createRowCache} from '../store/changes.ts';
import {type Refused, refused, type Send} from './draft.ts';

/** What all sends of a workspace with the same sender, template and topic share. */
export type SendPlan = {
	readonly ok: true;
	/** The newest version of the template. */
	readonly versionId: string;
	/** The topic of the send, else the default topic of the template or of the workspace, or `null`. */
	readonly topicCode: string | null;
	/** `null` if the message has no topic or no topic has the code. */
	readonly topicId: string | null;
	/** The priority of the topic, else that of the template. */
	readonly priority: Priority;
	/** The names of variables that are not stored permanently, or `null`. */
	readonly sensitive: readonly string[] | null;
	/** How many messages the workspace may send in a month, or `null` for no limit. */
	readonly quota: number | null;
};

/** A plan is lasting if all rows that it refers to exist: rows that appear later do not increase the generation. */
type Resolved = Refused | {readonly plan: SendPlan; readonly isLasting: boolean};

/** Caches what sends refer to until the store's change generation grows, so that checks do not become queries. */
export class Catalog {
	readonly #reader: Knex;
	readonly #plans = createRowCache<SendPlan>();
	// A plan that is not lasting is made anew for each send.
	readonly #workspaces = createRowCache<Workspace>();
	readonly #templates = createRowCache<TemplateRow>();
	readonly #senders = createRowCache<SenderRow>();

	constructor(reader: Knex) {
		this.#reader = reader;
	}

	/** Runs the checks that need no transaction, in order of precedence, and returns what the send refers to. */
	plan(send: Send): SendPlan | Promise<SendPlan | Refused> {
		const {workspaceId, templateId, from, topicCode} = send;
		const key = JSON.stringify([workspaceId, templateId, from.key, topicCode]);
		return this.#plans.peek(key) ?? this.#load(key, send);
	}

	async isPaused(workspaceId: string): Promise<boolean> {
		return (await this.#findActive(workspaceId)) === undefined;
	}

	/** Must be called when the generation has grown. */
	clear(): void {
		for (const cache of [this.#plans, this.#workspaces, this.#templates, this.#senders]) {
			cache.clear();
		}
	}

	async #load(key: string, send: Send): Promise<SendPlan | Refused> {
		let resolved: Resolved | undefined;
		const plan = await this.#plans.get(key, async () => {
			resolved = await this.#resolve(send);
			return 'plan' in resolved && resolved.isLasting ? resolved.plan : undefined;
		});
		if (plan !== undefined || resolved === undefined) {
			return plan as SendPlan;
		}
		return 'plan' in resolved ? resolved.plan : resolved;
	}

	async #resolve(send: Send): Promise<Resolved> {
		const {workspaceId, templateId, from} = send;
		const workspace = await this.#findActive(workspaceId);
		if (!workspace) {
			return refused('sending_paused');
		}
		const template = isTemplateId(templateId)
			? await this.#templates.get(`${workspaceId} ${templateId}`, () =>
					lookUpTemplate(this.#reader, workspaceId, templateId),
				)
			: undefined;
		if (!template) {
			return refused('template_not_found');
		}
		if (template.version_id === null) {
			return refused('template_has_no_version');
		}
		const sender = await this.#senders.get(`${workspaceId} ${from.key}`, () =>
			lookUpSender(this.#reader, workspaceId, from.key),
		);
		if (!sender || sender.verified_at === null || sender.disabled_at !== null) {
			return refused('sender_not_available');
		}
		const defaults = [template.topic, workspace.default_topic];
		const {topicCode, topic, isLasting} = await findTopic(this.#reader, send, defaults);
		const plan: SendPlan = {
			ok: true,
			versionId: template.version_id,
			topicCode,
			topicId: topic?.id ?? null,
			priority: topic?.priority ?? template.priority ?? 'normal',
			sensitive: template.sensitive === null ? null : JSON.parse(template.sensitive),
			quota: workspace.monthly_quota,
		};
		return {plan, isLasting};
	}

	async #findActive(id: string): Promise<Workspace | undefined> {
		const workspace = await this.#workspaces.get(id, () => findWorkspace(this.#reader, id));
		// A deleted workspace cannot send either.
		return workspace?.paused_at === null ? workspace : undefined;
	}
}

type FoundTopic = {
	readonly topicCode: string | null;
	readonly topic: TopicRow | undefined;
	readonly isLasting: boolean;
};

/**
 * Finds the topic of a send, or the first default topic that exists. Removing a topic therefore loses no mail. The
 * transaction checks that a topic that the send names exists, after the suppression list.
 */
async function findTopic(
	reader: Knex,
	{workspaceId, topicCode}: Send,
	defaults: ReadonlyArray<string | null>,
): Promise<FoundTopic> {
	let isLasting = true;
	for (const code of topicCode === null ? defaults : [topicCode]) {
		// A malformed code cannot exist, so skip the query; PostgreSQL rejects some texts.
		const topic = code !== null && isTopicCode(code) ? await lookUpTopic(reader, workspaceId, code) : undefined;
		if (topic) {
			return {topicCode: topic.code, topic, isLasting};
		}
		isLasting &&= code === null;
	}
	return {topicCode, topic: undefined, isLasting};
}
