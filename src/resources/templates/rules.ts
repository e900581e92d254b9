import {keyOf} from '../../compose/render/layouts.ts';
import {storeTime} from '../../kit/time.ts';
import {priorities} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {field, listFields, optionalOrNull} from '../fields.ts';
import {alreadyExists, notFound, operation, Refused} from '../operation.ts';
import {describeUsers, readSnapshot} from './layouts.ts';
import {deleteLayout, type LayoutKey, layoutKinds, listLayouts} from './layouts-store.ts';
import {deleteTemplate, findVersion, listVariants, lockTemplate, type Template} from './store.ts';
import {createTemplateRow, insertNext, type SettingsChange, setSettings} from './versions.ts';

/** The settings of a template, which apply to all its versions. */
export const templateSettings = {
	topic: field(optionalOrNull(Type.String({format: 'topic-code'})), {
		option: 'topic <code>',
		description: 'The code of the topic of its messages, unless a send specifies one.',
	}),
	priority: field(optionalOrNull(Type.Enum([...priorities])), {
		description: 'The priority of its messages, unless the send or its topic specifies one. Default: `normal`.',
	}),
	sensitive: field(Type.Optional(Type.Array(Type.String({format: 'variable-name'}), {maxItems: 50})), {
		label: 'Sensitive variables',
		option: 'sensitive <names>',
		description:
			'Names of variables that are stored encrypted, and only until the last attempt: `["code", "link"]`.',
		help: 'Variables that are stored encrypted, and only until the last attempt.',
	}),
};
export const settingsFields = listFields(Type.Object(templateSettings));

const manages = {
	scope: 'templates:manage',
	role: 'operator',
	without: {apply: 'a file has no templates'},
} as const;

/** Creates a template without versions. */
export const createTemplate = operation({
	...manages,
	name: 'template create',
	summary: 'Create a template without a version',
	input: Type.Object(
		{
			name: field(Type.String({format: 'label'}), {
				description: 'A display name, unique in the workspace: 1 to 200 characters on one line.',
			}),
			id: field(Type.Optional(Type.String({format: 'template-id'})), {
				description:
					'The id used in sends, unique in the workspace: `tpl_` and 1 to 64 letters, digits, hyphens and underscores. Generated if omitted.',
				help: 'The id used in sends, unique in the workspace; use the same in staging and production.',
				default: 'generated',
			}),
			...templateSettings,
		},
		{additionalProperties: false, examples: [{name: 'receipt', id: 'tpl_receipt'}]},
	),
	async run({trx, tools, workspaceId}, {id = null, name, ...settings}): Promise<SettingsChange> {
		const created = await createTemplateRow(trx, tools, workspaceId, {id, name});
		return typeof created === 'string'
			? alreadyExists('template', created, created === 'id' ? String(id) : name)
			: await setSettings(trx, tools, {workspaceId, id: created.id, settings});
	},
	audit: 'template.created',
	entry: ({template: {id: target}, isChanged}, {id: _, name, ...settings}) => [
		{target, detail: {name}},
		...(isChanged ? [{action: updateTemplate.audit, target, detail: {name, ...settings}}] : []),
	],
});

/** Changes the given settings of a template. Messages already accepted keep the settings they were accepted with. */
export const updateTemplate = operation({
	...manages,
	name: 'template update',
	summary: 'Change the settings of a template; the value none clears a setting',
	input: Type.Object(
		{id: Type.String(), ...templateSettings},
		{additionalProperties: false, examples: [{priority: 'high'}]},
	),
	run: async ({trx, tools, workspaceId}, {id, ...settings}): Promise<Template> =>
		(await setSettings(trx, tools, {workspaceId, id, settings})).template,
	audit: 'template.updated',
	entry: ({id, name}, {id: _, ...settings}) => ({target: id, detail: {name, ...settings}}),
});

type RolledBack = Pick<Template, 'id' | 'name'> & {readonly version: number; readonly restored: number};

/** Saves the content of an old version as the next one, without compiling it again. */
export const rollBackTemplate = operation({
	role: 'operator',
	name: 'template rollback',
	without: {...manages.without, api: 'a program saves the old sources as a new version'},
	input: Type.Object({id: Type.String(), version: Type.Integer({minimum: 1, maximum: 2 ** 31 - 1})}),
	async run({trx, tools, workspaceId}, {id, version: restored}): Promise<RolledBack> {
		const template = (await lockTemplate(trx, workspaceId, {id})) ?? notFound('template', id);
		const {name, row_id: rowId, latest_version: latest} = template;
		const texts = {wrong: `${name} has no version ${restored}`, next: `see mailctl template show ${id}`};
		const old = (await findVersion(trx, rowId, restored)) ?? notFound('template', id, texts);
		if (latest === restored) {
			const wrong = `version ${restored} of ${name} is already the newest`;
			throw new Refused('conflict', {wrong, next: 'choose an older one'});
		}
		const content = {variants: await listVariants(trx, old.id), sample: old.sample, layout: old.layout};
		const {version} = await insertNext(trx, tools, template, content);
		return {id, name, version, restored};
	},
	audit: 'template.rolled_back',
	entry: ({id, ...detail}) => ({target: id, detail}),
});

/** Removes a template. Messages sent with it keep its version. */
export const removeTemplate = operation({
	...manages,
	fresh: true,
	name: 'template delete',
	summary: 'Delete a template; messages accepted with it are still sent',
	input: Type.Object({id: Type.String()}),
	async run({trx, tools, workspaceId}, {id}): Promise<Template> {
		const template = (await lockTemplate(trx, workspaceId, {id})) ?? notFound('template', id);
		await deleteTemplate(trx, workspaceId, id, storeTime(tools.clock.now()));
		return template;
	},
	audit: 'template.deleted',
	entry: ({id}) => ({target: id}),
});

/** Removes a layout or partial that nothing uses. */
export const removeLayout = operation({
	...manages,
	name: 'layout remove',
	without: {...manages.without, cli: 'template push saves layouts, but a folder may lack some of them'},
	input: Type.Object({kind: Type.Enum([...layoutKinds]), name: Type.String()}),
	async run({trx, workspaceId}, layout): Promise<LayoutKey> {
		const {kind, name} = layout;
		await listLayouts(trx, workspaceId, {lock: true});
		const users = describeUsers(await readSnapshot(trx, workspaceId), layout);
		if (users.length > 0) {
			const wrong = `${users.join(', ')} ${users.length === 1 ? 'uses' : 'use'} the ${kind} ${name}`;
			const next = 'save them without it first';
			throw new Refused('conflict', {wrong, next, api: `${wrong}. Save them without it first.`});
		}
		return (await deleteLayout(trx, workspaceId, layout)) ? layout : notFound(kind, name);
	},
	audit: 'layout.removed',
	entry: layout => ({target: keyOf(layout)}),
});
