import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {priorities} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {notFound, operation, unusable} from '../operation.ts';
import {lookUpTopic} from '../topics/store.ts';
import {changeSettings, lockTemplate, type Template, type TemplateSettings} from './store.ts';

/** The settings of a template, which apply to all its versions. */
export const templateSettings = {
	topic: Type.Optional(
		Type.Union([Type.String({format: 'topic-code'}), Type.Null()], {
			description: 'The code of the topic of its messages, unless a send specifies one.',
		}),
	),
	priority: Type.Optional(
		Type.Union([Type.Enum([...priorities]), Type.Null()], {
			description: 'The priority of its messages, unless the send or its topic specifies one. Default: `normal`.',
		}),
	),
	sensitive: Type.Optional(
		Type.Array(Type.String({format: 'variable-name'}), {
			maxItems: 50,
			description:
				'Names of variables that are stored encrypted, and only until the last attempt: `["code", "link"]`.',
		}),
	),
};

/** Changes the given settings of a template. Messages already accepted keep the settings they were accepted with. */
export const updateTemplate = operation({
	scope: 'templates:manage',
	role: 'operator',
	name: 'template update',
	without: {apply: 'a file has no templates'},
	input: Type.Object(
		{id: Type.String(), ...templateSettings},
		{additionalProperties: false, examples: [{priority: 'high'}]},
	),
	async run({trx, tools, workspaceId}, {id, ...settings}): Promise<Template> {
		return (await setSettings(trx, {workspaceId, id, settings, at: storeTime(tools.clock.now())})).template;
	},
	audit: 'template.updated',
	entry: ({id, name}, {id: _, ...settings}) => ({target: id, detail: {name, ...settings}}),
});

/** Changes the given settings. Throws `Refused` if the template or the topic does not exist. */
export async function setSettings(
	trx: Knex.Transaction,
	{
		workspaceId,
		id,
		settings,
		at,
	}: {
		readonly workspaceId: string;
		readonly id: string;
		readonly settings: Partial<TemplateSettings>;
		readonly at: string;
	},
): Promise<{readonly template: Template; readonly isChanged: boolean}> {
	const template = (await lockTemplate(trx, workspaceId, {id})) ?? notFound('template', id);
	const requested = {topic: settings.topic, priority: settings.priority, sensitive: settings.sensitive};
	const changes = Object.fromEntries(
		Object.entries(requested).filter(
			([name, value]) => value !== undefined && !isSame(value, template[name as keyof TemplateSettings]),
		),
	) as Partial<TemplateSettings>;
	if (changes.topic && !(await lookUpTopic(trx, workspaceId, changes.topic))) {
		unusable('topic', 'must be the code of a topic of this workspace');
	}
	if (Object.keys(changes).length === 0) {
		return {template, isChanged: false};
	}
	await changeSettings(trx, template.row_id, changes, at);
	return {template: {...template, ...changes, updated_at: at}, isChanged: true};
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
