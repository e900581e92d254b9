import type {Knex} from 'knex';
import type {Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import type {CompileResult, VariantSource} from '../../compose/render/compile.ts';
import {renderInWorker} from '../../compose/render/in-worker.ts';
import type {Violation} from '../../mail/api-error.ts';
import {apiError} from '../../mail/api-error.ts';
import {cidWarnings} from '../../mail/content-id.ts';
import {isTemplateId} from '../../mail/ids.ts';
import {Type} from '../../mail/type.ts';
import {variablesJson} from '../../send/schema.ts';
import {canonicalLocale} from '../formats.ts';
import {idParams} from '../page-schema.ts';
import {maxViolations} from '../validate.ts';
import {listedVersionView, templateView, versionView} from '../views.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {compileWith, readSnapshot} from './layouts.ts';
import {createTemplate, removeTemplate, updateTemplate} from './rules.ts';
import {
	listedVersionSchema,
	previewBody,
	previewedSchema,
	templateSchema,
	type VersionBody,
	versionBody,
	versionSchema,
} from './schema.ts';
import {
	findTemplate,
	findVersion,
	listSubjects,
	listVariants,
	pageTemplates,
	pageVersions,
	type Template,
	type TemplateVariant,
} from './store.ts';
import {addVersion, previewTemplate, saveSettings, storedVariant} from './versions.ts';

const createTemplateRoute = operationRoute(createTemplate, {
	endpoint: 'POST /v1/templates',
	tag: 'Templates',
	summary: 'Create a template',
	description: 'The template can be used in sends once it has a version.',
	answer: [201, 'The template, without a version.', templateSchema],
	errors: ['conflict', 'unprocessable_entity'],
	view: ({template}) => templateView(template),
});

const updateTemplateRoute = operationRoute(updateTemplate, {
	endpoint: 'PATCH /v1/templates/:id',
	id: 'tpl',
	tag: 'Templates',
	summary: 'Update a template',
	description:
		'Omitted fields stay unchanged, and `null` resets a setting. Messages that are already accepted are not affected.',
	answer: [200, 'The template.', templateSchema],
	errors: ['unprocessable_entity'],
	view: template => templateView(template),
});

const listTemplatesRoute = listRoute({
	path: '/v1/templates',
	scope: 'templates:read',
	name: 'templates',
	tag: 'Templates',
	summary: 'List templates',
	meaning: 'Templates, newest first.',
	defaultLimit: 25,
	item: templateSchema,
	find: ({workspaceId}, {reader}) => ({
		async read(part) {
			const rows = await pageTemplates(reader, workspaceId, part);
			return rows.map(row => ({id: row.row_id, row}));
		},
	}),
	view: ({row}) => templateView(row),
});

const getTemplateRoute = apiRoute({
	endpoint: 'GET /v1/templates/:id',
	scope: 'templates:read',
	id: 'tpl',
	tag: 'Templates',
	summary: 'Get a template',
	answer: [200, 'The template.', templateSchema],
	async handle({workspaceId, id}, {reader}) {
		const template = await findTemplate(reader, workspaceId, {id});
		if (!template) {
			throw apiError('not_found');
		}
		return templateView(template);
	},
});

const deleteTemplateRoute = operationRoute(removeTemplate, {
	endpoint: 'DELETE /v1/templates/:id',
	id: 'tpl',
	tag: 'Templates',
	summary: 'Delete a template',
	description: 'Messages already accepted are still sent. The name can be used again.',
	answer: [204, 'The template was deleted.', null],
});

export const templateRoutes: readonly Route[] = [
	createTemplateRoute,
	updateTemplateRoute,
	listTemplatesRoute,
	getTemplateRoute,
	deleteTemplateRoute,
];

const versionParams = Type.Object({
	...idParams('tpl').properties,
	version: Type.String({description: 'The number of the version, from 1.'}),
});

const saveVersionRoute = apiRoute({
	endpoint: 'POST /v1/templates/:id/versions',
	scope: 'templates:manage',
	id: 'tpl',
	tag: 'Templates',
	summary: 'Save a version of a template',
	description:
		'Saves the sources as the next version, which sends use from now on, even if nothing has changed. The sources are checked and compiled. Each syntax error is reported as a violation with field, line and column.',
	answer: [201, 'The version.', versionSchema],
	errors: ['conflict', 'unprocessable_entity'],
	body: versionBody,
	async handle({workspaceId, id: templateId, body, tools}, {reader, change, work}) {
		const {variants: bodyVariants, layout: layoutName, ...settings} = body;
		const layout = layoutName || null;
		const sources = readVariants(bodyVariants).map(source => ({...source, layout}));
		const {id} = await requireTemplate(reader, workspaceId, templateId);
		const snapshot = await readSnapshot(reader, workspaceId);
		const compiled = await work.templateCompiles(workspaceId, () => compileWith(snapshot, sources));
		const variants = toStoredVariants(sources, compiled);
		const {layouts} = snapshot;
		const version = await change(async trx => {
			const saved = await addVersion(trx, tools, {workspaceId, id, variants, layout, layouts});
			if (typeof saved === 'object') {
				await saveSettings(trx, tools, {workspaceId, id, settings});
			}
			return saved;
		});
		if (typeof version !== 'object') {
			throw apiError('not_found');
		}
		return versionView(id, version, variants);
	},
});

const listVersionsRoute = listRoute({
	path: '/v1/templates/:id/versions',
	scope: 'templates:read',
	id: 'tpl',
	name: 'template_versions',
	tag: 'Templates',
	summary: 'List the versions of a template',
	description: 'Lists versions without their sources, which are read one version at a time.',
	meaning: 'Versions, newest first.',
	defaultLimit: 25,
	item: listedVersionSchema,
	errors: ['not_found'],
	find: ({workspaceId, id}, {reader}) => ({
		filters: {template: id},
		async read({after, limit}) {
			const template = await requireTemplate(reader, workspaceId, id);
			const before = after === null ? null : Number(after);
			const rows = await pageVersions(reader, template.row_id, {before, limit});
			const subjects = await listSubjects(
				reader,
				rows.map(row => row.id),
			);
			return rows.map(row => ({
				id: String(row.version),
				view: listedVersionView(id, row, subjects.get(row.id) ?? []),
			}));
		},
	}),
	view: ({view}) => view,
});

const getVersionRoute = apiRoute({
	endpoint: 'GET /v1/templates/:id/versions/:version',
	isLarge: true,
	params: versionParams,
	scope: 'templates:read',
	tag: 'Templates',
	summary: 'Get a version of a template',
	answer: [200, 'The version, with its sources.', versionSchema],
	errors: ['not_found'],
	async handle({workspaceId, id, request}, {reader}) {
		const {version: text} = request.params as {readonly version: string};
		const template = await requireTemplate(reader, workspaceId, id);
		const isNumber = /^[1-9]\d{0,8}$/.test(text);
		const version = isNumber ? await findVersion(reader, template.row_id, Number(text)) : undefined;
		if (!version) {
			throw apiError('not_found');
		}
		return versionView(id, version, await listVariants(reader, version.id));
	},
});

const previewRoute = apiRoute({
	endpoint: 'POST /v1/templates/:id/preview',
	isLarge: true,
	scope: 'templates:read',
	id: 'tpl',
	tag: 'Templates',
	summary: 'Preview a template',
	description: 'Renders the template for `recipient@example.com`, as a send would. Nothing is sent.',
	answer: [200, 'The rendered message.', previewedSchema],
	errors: ['template_has_no_version', 'unprocessable_entity'],
	body: previewBody,
	async handle({workspaceId, id, body}, {reader, work}) {
		const {data = null, locale = '', timezone = '', version = null, contentIds = []} = body;
		const template = await requireTemplate(reader, workspaceId, id);
		const workspace = await findWorkspace(reader, workspaceId);
		if (!workspace) {
			throw apiError('not_found');
		}
		const rendered = await previewTemplate(reader, {
			workspace,
			template,
			version,
			data: data && variablesJson(data),
			locale: locale === '' ? null : canonicalLocale(locale),
			timezone: timezone === '' ? null : timezone,
			render: job => work.previewRenders(workspaceId, () => renderInWorker(job)),
		});
		if (rendered === undefined) {
			throw version === null || template.latest_version === null
				? apiError('template_has_no_version')
				: apiError('validation_failed', {
						violations: [{field: 'version', message: 'must be the number of an existing version'}],
					});
		}
		if (!rendered.ok) {
			throw apiError('unprocessable_entity', {message: `The template fails at ${rendered.message}.`});
		}
		const {subject, html, text} = rendered;
		const warnings = cidWarnings(html, contentIds);
		return {subject, html, text, ...(warnings.length > 0 && {warnings})};
	},
});

/** The routes of template versions and previews. */
export const versionRoutes: readonly Route[] = [saveVersionRoute, listVersionsRoute, getVersionRoute, previewRoute];

/** Returns the template. Throws `not_found` if it does not exist. */
async function requireTemplate(reader: Knex, workspaceId: string, id: string): Promise<Template> {
	const template = isTemplateId(id) ? await findTemplate(reader, workspaceId, {id}) : undefined;
	if (!template) {
		throw apiError('not_found');
	}
	return template;
}

/** Returns the variants of a body that matches the schema. Throws if they break a rule that a schema cannot express. */
function readVariants(variants: VersionBody['variants']): readonly VariantSource[] {
	const violations: Violation[] = [];
	const seen = new Set<string | null>();
	const sources = variants.map(({locale: tag = '', subject, mjml, html, text}, index): VariantSource => {
		const locale = tag === '' ? null : canonicalLocale(tag);
		if (seen.has(locale)) {
			const message = locale === null ? 'the default variant appears twice' : 'appears twice';
			violations.push({field: `variants[${index}].locale`, message});
		}
		seen.add(locale);
		if ((mjml === undefined) === (html === undefined)) {
			violations.push({field: `variants[${index}].mjml`, message: 'set either mjml or html'});
		}
		return {locale, subject, mjml: withoutBom(mjml), html: withoutBom(html), text: withoutBom(text)};
	});
	throwIfAny(violations);
	return sources;
}

// A byte order mark is not part of the text, just as when files are read.
function withoutBom(text: string | undefined): string | undefined {
	return text?.replace(/^\ufeff+/, '');
}

/** Throws `validation_failed` if there are violations. */
function throwIfAny(violations: readonly Violation[]): void {
	if (violations.length > 0) {
		throw apiError('validation_failed', {violations: violations.slice(0, maxViolations)});
	}
}

const maxMessageLength = 500;

/** Returns the compiled variants. Throws the compiler's errors, each with its field, line and column. */
function toStoredVariants(sources: readonly VariantSource[], results: readonly CompileResult[]): TemplateVariant[] {
	const variants: TemplateVariant[] = [];
	const violations: Violation[] = [];
	for (const [index, source] of sources.entries()) {
		const result = results[index];
		if (result?.ok) {
			variants.push(storedVariant(source, result));
		}
		for (const {field, file, message, line, column} of result?.ok === false ? result.violations : []) {
			const position = `line ${line}, column ${column}${file === undefined ? '' : ` of ${file}`}`;
			violations.push(
				field === 'layout'
					? {field, message}
					: {
							field: `variants[${index}].${field}`,
							message: `${position}: ${message}`.slice(0, maxMessageLength),
						},
			);
		}
	}
	throwIfAny(violations);
	return variants;
}
