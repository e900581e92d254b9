import type {Knex} from 'knex';
import type {Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import type {Layout} from '../../compose/render/layouts.ts';
import {apiTime} from '../../kit/time.ts';
import {inSlice} from '../../kit/turns.ts';
import {apiError} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {time} from '../page-schema.ts';
import {maxViolations} from '../validate.ts';
import {Diffs, previewEffects} from './layout-changes.ts';
import {type Change, checkLayoutRoom, describeUsers, planChange, readSnapshot, saveChange} from './layouts.ts';
import {findLayout, type ListedLayout, layoutKinds, listLayouts, listLayoutUsers} from './layouts-store.ts';
import {removeLayout} from './rules.ts';

const identity = {kind: Type.Enum([...layoutKinds]), name: Type.String(), updated_at: time};
const files = Type.Record(Type.String(), Type.String({format: 'text'}));
const example = {kind: 'partial', name: 'footer', updated_at: '2026-06-09T10:15:30+00:00'};
const sources = {'footer.liquid': '<mj-text>{{ workspace.name }}</mj-text>'};
const strict = {additionalProperties: false} as const;

const listed = Type.Object(identity, {examples: [example]});
const layoutSchema = Type.Object(
	{
		...identity,
		files,
		used_by: Type.Array(Type.String(), {description: 'Names of templates, and keys of layouts and partials.'}),
	},
	{examples: [{...example, files: sources, used_by: ['receipt', 'layout/main']}]},
);
const changeSchema = Type.Object(
	{
		templates: Type.Array(
			Type.Object({
				id: Type.String(),
				name: Type.String(),
				version: Type.Integer({description: 'The number of the new version.'}),
				diff: Type.String({
					description:
						'Unified diff of the sources including layout and partials. A note replaces diffs of more than 2,000 lines, and all further diffs beyond 1 MiB in total.',
				}),
			}),
		),
	},
	{
		examples: [
			{
				templates: [
					{id: 'tpl_receipt', name: 'receipt', version: 4, diff: '--- receipt/body.mjml (version 3)\n…'},
				],
			},
		],
	},
);

const params = Type.Object({
	kind: Type.String({description: '`layout` or `partial`.'}),
	name: Type.String({description: '1 to 64 letters, digits, hyphens and underscores.'}),
});
type Params = Pick<Layout, 'kind' | 'name'>;

const view = ({kind, name, updated_at}: Omit<ListedLayout, 'uses'>) => ({kind, name, updated_at: apiTime(updated_at)});

const listLayoutsRoute = listRoute({
	path: '/v1/layouts',
	scope: 'templates:read',
	name: 'layouts',
	tag: 'Templates',
	summary: 'List layouts and partials',
	meaning: 'Layouts, then partials, by name, without their sources.',
	defaultLimit: 100,
	item: listed,
	find: ({workspaceId}, {reader}) => ({
		async read({after, limit}) {
			const rows = (await listLayouts(reader, workspaceId)).map(row => ({
				id: `${row.kind}/${row.name}`,
				row,
			}));
			return rows.filter(({id}) => after === null || id > after).slice(0, limit);
		},
	}),
	view: ({row}) => view(row),
});

const getLayoutRoute = apiRoute({
	isLarge: true,
	endpoint: 'GET /v1/layouts/:kind/:name',
	params,
	scope: 'templates:read',
	tag: 'Templates',
	summary: 'Get a layout or a partial',
	answer: [200, 'Its sources by file name, and what uses it.', layoutSchema],
	errors: ['not_found'],
	async handle({workspaceId, request}, {reader}) {
		const {kind, name} = request.params as Params;
		const layout = layoutKinds.includes(kind) ? await findLayout(reader, workspaceId, {kind, name}) : undefined;
		if (!layout) {
			throw apiError('not_found');
		}
		const layouts = await listLayouts(reader, workspaceId);
		const users = await listLayoutUsers(reader, workspaceId);
		return {...view(layout), files: layout.files, used_by: describeUsers({layouts, users}, layout)};
	},
});

const saveLayoutRoute = apiRoute({
	endpoint: 'PUT /v1/layouts/:kind/:name',
	params,
	scope: 'templates:manage',
	tag: 'Templates',
	summary: 'Save a layout or a partial',
	description:
		'Creates a new version of each template that uses it. If one of them does not compile, nothing is saved. With `dry_run=true` the response shows the changes without saving them.',
	answer: [200, 'The templates that change, each with its diff.', changeSchema],
	errors: ['not_found', 'conflict'],
	query: Type.Object(
		{dry_run: Type.Optional(Type.Enum(['true', 'false'], {description: '`true` saves nothing.'}))},
		strict,
	),
	body: Type.Object(
		{files: {...files, description: 'All its sources, by file name.'}},
		{...strict, examples: [{files: sources}]},
	),
	async handle({workspaceId, request, body, query, tools}, {reader, change, work}) {
		const {kind, name} = request.params as Params;
		if (!layoutKinds.includes(kind)) {
			throw apiError('not_found');
		}
		const layout = {kind, name, files: body.files};
		return await work.layoutChanges(workspaceId, async () => {
			const planned = await planChange(await readSnapshot(reader, workspaceId), [layout]);
			if (!planned.ok) {
				const violations = planned.problems.map(message => ({
					field: 'files',
					message: message.slice(0, 500),
				}));
				throw apiError('validation_failed', {violations: violations.slice(0, maxViolations)});
			}
			await checkLayoutRoom(reader, tools, workspaceId, planned.change);
			const templates = await describeChanges(reader, workspaceId, planned.change);
			if (query.dry_run !== 'true') {
				await change(trx => saveChange(trx, tools, workspaceId, planned.change));
			}
			return {templates};
		});
	},
});

const deleteLayoutRoute = operationRoute(removeLayout, {
	endpoint: 'DELETE /v1/layouts/:kind/:name',
	params,
	tag: 'Templates',
	summary: 'Remove a layout or a partial',
	description: 'Fails with `conflict` while a template, layout or partial uses it.',
	answer: [204, 'The layout or partial was removed.', null],
	errors: ['not_found', 'conflict'],
});

/** The routes of /v1/layouts: the sources that templates of a workspace share. */
export const layoutRoutes: readonly Route[] = [listLayoutsRoute, getLayoutRoute, saveLayoutRoute, deleteLayoutRoute];

/** Returns the templates that get a new version, each with its diff. */
async function describeChanges(reader: Knex, workspaceId: string, planned: Change) {
	const diffs = new Diffs(inSlice);
	const templates = [];
	for await (const effect of previewEffects(reader, workspaceId, planned)) {
		if (effect.changed) {
			const {id, name, version} = effect;
			templates.push({id, name, version, diff: await diffs.write(effect)});
		}
	}
	return templates;
}
