import {createHash} from 'node:crypto';
import type {Knex} from 'knex';
import type {CompiledVariant, VariantSource} from '../../compose/render/compile.ts';
import type {RenderJob} from '../../compose/render/in-worker.ts';
import {keyOf} from '../../compose/render/layouts.ts';
import {chooseVariant, mailLocale} from '../../compose/render/locale.ts';
import type {RenderResult} from '../../compose/render/render.ts';
import {storeTime} from '../../kit/time.ts';
import type {ActTools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {recordAct} from '../audit/store.ts';
import {notFound, Refused, refuseField} from '../operation.ts';
import {lookUpTopic} from '../topics/store.ts';
import {checkRoom} from '../workspaces/limits.ts';
import type {Workspace} from '../workspaces/store.ts';
import {type ListedLayout, listLayouts} from './layouts-store.ts';
import {
	changeSettings,
	findTemplate,
	findVersion,
	insertTemplate,
	insertVersion,
	listVariants,
	lockTemplate,
	type Template,
	type TemplateSettings,
	type TemplateVariant,
	type TemplateVersion,
} from './store.ts';

/** Returns the stored form of a variant: its source and its compiled output. */
export function storedVariant(
	{locale, subject, mjml, html, text}: VariantSource,
	compiled: Pick<CompiledVariant, 'html' | 'text' | 'resolved'>,
): TemplateVariant {
	const {resolved} = compiled;
	const [source, textSource] = [mjml ?? html ?? '', text ?? null];
	return {
		locale,
		subject,
		kind: mjml === undefined ? 'html' : 'mjml',
		source: resolved?.mjml ?? resolved?.html ?? source,
		text_source: resolved?.text ?? textSource,
		own_source: resolved ? source : null,
		own_text_source: resolved ? textSource : null,
		html: compiled.html,
		text: compiled.text,
	};
}

/** Returns the source of a variant as its author wrote it. */
export function variantSource(variant: TemplateVariant): VariantSource {
	const {locale, subject, kind, own_source: own} = variant;
	const text = own === null ? variant.text_source : variant.own_text_source;
	return {locale, subject, [kind]: own ?? variant.source, ...(text !== null && {text})};
}

const noSettings: TemplateSettings = {topic: null, priority: null, sensitive: []};

/** The name and id of a template. If `id` is `null`, one is generated when the template is created. */
export type Named = {readonly id: string | null; readonly name: string};

/**
 * Creates a template without versions. Returns `id` or `name` if the workspace already has a template with it. The
 * caller records the act.
 */
export async function createTemplateRow(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	{id, name}: Named,
): Promise<Template | 'id' | 'name'> {
	// Submission by SMTP needs its own template even if the limit has been reached.
	if (id !== submissionId) {
		await checkRoom(trx, tools, workspaceId, 'templates');
	}
	const now = storeTime(tools.clock.now());
	const rowId = tools.newId('tpl');
	const template: Template = {
		id: id ?? rowId,
		row_id: rowId,
		workspace_id: workspaceId,
		name,
		latest_version: null,
		created_at: now,
		updated_at: now,
		deleted_at: null,
		...noSettings,
	};
	const isCreated = await insertTemplate(trx, template);
	if (isCreated) {
		return template;
	}
	return id !== null && (await findTemplate(trx, workspaceId, {id})) ? 'id' : 'name';
}

/** The result of saving a template. */
export type Saved = {
	readonly id: string;
	readonly name: string;
	readonly version: number;
	/** `false` if the newest version and the settings were already the same. */
	readonly changed: boolean;
};

/** Changes the given settings of a template. Throws `Refused` if the topic does not exist. */
export async function saveSettings(trx: Knex.Transaction, tools: ActTools, input: SettingsInput): Promise<boolean> {
	const {template, isChanged} = await setSettings(trx, tools, input);
	if (isChanged) {
		const {workspaceId, id, settings} = input;
		const detail = {name: template.name, ...settings};
		await recordAct(trx, tools, {action: 'template.updated', workspaceId, target: id, detail});
		await bumpGeneration(trx);
	}
	return isChanged;
}

type SettingsInput = {
	readonly workspaceId: string;
	readonly id: string;
	readonly settings: Partial<TemplateSettings>;
};
export type SettingsChange = {readonly template: Template; readonly isChanged: boolean};

/**
 * Changes the given settings, and leaves the record of the act to the caller. Throws `Refused` if the template or the
 * topic does not exist.
 */
export async function setSettings(
	trx: Knex.Transaction,
	tools: Pick<ActTools, 'clock'>,
	{workspaceId, id, settings: {topic, priority, sensitive}}: SettingsInput,
): Promise<SettingsChange> {
	const template = (await lockTemplate(trx, workspaceId, {id})) ?? notFound('template', id);
	const changes = Object.fromEntries(
		Object.entries({topic, priority, sensitive}).filter(
			([name, value]) => value !== undefined && !isSame(value, template[name as keyof TemplateSettings]),
		),
	) as Partial<TemplateSettings>;
	if (changes.topic && !(await lookUpTopic(trx, workspaceId, changes.topic))) {
		refuseField('topic', 'must be the code of a topic of this workspace');
	}
	if (Object.keys(changes).length === 0) {
		return {template, isChanged: false};
	}
	const at = storeTime(tools.clock.now());
	await changeSettings(trx, template.row_id, changes, at);
	return {template: {...template, ...changes, updated_at: at}, isChanged: true};
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The content of a version. */
export type Content = {
	/** The compiled variants, the default variant first if there is one. */
	readonly variants: readonly TemplateVariant[];
	/** Variables for previews: a JSON object as text, or `null`. */
	readonly sample: string | null;
	/** The name of the layout that the variants use, if any. */
	readonly layout?: string | null | undefined;
	/**
	 * The stored layouts when the variants were compiled, to detect changes since then. Absent if none is used, or if
	 * they cannot have changed.
	 */
	readonly layouts?: readonly ListedLayout[] | undefined;
};

/** The maximum number of characters of a version, with all languages and their compiled output. */
export const maxVersionLength = 8 * 1024 * 1024;

export function isTooLargeVersion(variants: Content['variants']): boolean {
	const lengthOf = ({source, text_source, html, text}: TemplateVariant) =>
		[source, text_source, html, text].reduce((sum, part) => sum + (part?.length ?? 0), 0);
	return variants.reduce((sum, variant) => sum + lengthOf(variant), 0) > maxVersionLength;
}

/** Whether a version has exactly this content. */
export function isContent({fingerprint, sample, layout}: TemplateVersion, content: Content): boolean {
	const hasSameSources = fingerprint === toFingerprint(content.variants) && sample === content.sample;
	return hasSameSources && layout === (content.layout ?? null);
}

/** Returns which other template prevents saving one with this id and name, as a clause, or `null`. */
export async function findConflict(reader: Knex, workspaceId: string, {id, name}: Named): Promise<string | null> {
	if (id === null) {
		return null;
	}
	const byId = await findTemplate(reader, workspaceId, {id});
	if (byId) {
		return byId.name === name ? null : `the id ${id} belongs to the template ${byId.name}`;
	}
	const byName = await findTemplate(reader, workspaceId, {name});
	return byName ? `the template ${name} has the id ${byName.id}, not ${id}` : null;
}

/**
 * Saves content as a new version of the template with this name. Creates the template, with the given id, if it does
 * not exist. No version is created if the newest one has the same content.
 */
export async function saveTemplate(
	trx: Knex.Transaction,
	tools: ActTools,
	{
		workspaceId,
		id: requestedId = null,
		name,
		...content
	}: Content & {readonly workspaceId: string; readonly id?: string | null; readonly name: string},
): Promise<Saved> {
	const template = await lockOrCreate(trx, tools, workspaceId, {id: requestedId, name});
	const {id, row_id: rowId, latest_version: latest} = template;
	const newest = latest === null ? undefined : await findVersion(trx, rowId, latest);
	if (newest && isContent(newest, content)) {
		return {id, name, version: newest.version, changed: false};
	}
	const {version} = await addNext(trx, tools, template, content);
	return {id, name, version, changed: true};
}

async function lockOrCreate(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	named: Named,
): Promise<Template> {
	const {name} = named;
	const existing = await lockTemplate(trx, workspaceId, {name});
	if (existing) {
		return existing;
	}
	const created = await createTemplateRow(trx, tools, workspaceId, named);
	if (typeof created === 'object') {
		await recordAct(trx, tools, {action: 'template.created', workspaceId, target: created.id, detail: {name}});
		return created;
	}
	// Another node was creating the template at the same time. It exists now that that node's transaction has ended.
	const template = await lockTemplate(trx, workspaceId, {name});
	if (!template) {
		throw new Error(`The template ${name} was created and deleted concurrently. Try again.`);
	}
	return template;
}

/**
 * Saves variants as the template's next version, even if the newest one has the same content. An absent `sample` is
 * taken from the newest version. `after` is the version that was edited (`null` for the first one): if a newer one
 * exists, nothing is saved and the result is `newer`. Returns `undefined` if the template does not exist.
 */
export async function addVersion(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, id, sample, after, ...content}: NextVersion,
): Promise<TemplateVersion | 'newer' | undefined> {
	const template = await lockTemplate(trx, workspaceId, {id});
	if (!template) {
		return undefined;
	}
	const {row_id: rowId, latest_version: latest} = template;
	if (after !== undefined && after !== latest) {
		return 'newer';
	}
	const newest = latest === null ? undefined : await findVersion(trx, rowId, latest);
	return await addNext(trx, tools, template, {
		...content,
		sample: sample === undefined ? (newest?.sample ?? null) : sample,
	});
}

type NextVersion = Omit<Content, 'sample'> & {
	readonly workspaceId: string;
	readonly id: string;
	readonly sample?: string | null;
	readonly after?: number | null;
};

async function addNext(
	trx: Knex.Transaction,
	tools: ActTools,
	template: Template,
	content: Content,
): Promise<TemplateVersion> {
	const next = await insertNext(trx, tools, template, content);
	const {workspace_id: workspaceId, id, name} = template;
	await recordAct(trx, tools, {
		action: 'template.version_created',
		workspaceId,
		target: id,
		detail: {name, version: next.version},
	});
	await bumpGeneration(trx);
	return next;
}

/**
 * Inserts the next version, and leaves the record of the act to the caller, who has locked the template, so that
 * `latest_version` is current.
 */
export async function insertNext(
	trx: Knex.Transaction,
	tools: ActTools,
	{id, row_id: rowId, workspace_id: workspaceId, latest_version: latest}: Template,
	{variants, sample, layout = null, layouts}: Content,
): Promise<TemplateVersion> {
	if (layouts && variants.some(variant => variant.own_source !== null)) {
		await lockUnchangedLayouts(trx, workspaceId, layouts);
	}
	const version: TemplateVersion = {
		id: tools.newId('tpv'),
		template_id: rowId,
		version: (latest ?? 0) + 1,
		fingerprint: toFingerprint(variants),
		sample,
		layout,
		created_at: storeTime(tools.clock.now()),
	};
	if (!(await insertVersion(trx, version, variants))) {
		throw new Error(`The template ${id} was changed while it was locked.`);
	}
	return version;
}

/** Locks the layouts until the transaction ends. Throws `Refused` if they have changed since they were read. */
export async function lockUnchangedLayouts(
	trx: Knex.Transaction,
	workspaceId: string,
	layouts: readonly ListedLayout[],
): Promise<void> {
	const current = await listLayouts(trx, workspaceId, {lock: true});
	const versionsOf = (listed: readonly ListedLayout[]) =>
		JSON.stringify(listed.map(layout => [keyOf(layout), layout.updated_at]));
	if (versionsOf(current) !== versionsOf(layouts)) {
		throw new Refused('conflict', {
			wrong: 'a layout or partial was changed in the meantime',
			next: 'try again',
			api: 'A layout or partial was changed in the meantime. Try again.',
		});
	}
}

/** Returns the SHA-256 of the sources, independent of the order of variants and of the compiler's version. */
export function toFingerprint(variants: readonly TemplateVariant[]): string {
	const sources = variants
		.map(({locale, subject, kind, source, text_source: text, own_source: own, own_text_source: ownText}) =>
			JSON.stringify([locale, subject, kind, source, text, ...(own === null ? [] : [own, ownText])]),
		)
		.sort();
	return createHash('sha256').update(JSON.stringify(sources)).digest('hex');
}

/** The template of messages submitted by SMTP, since every message must have a template. Its content is never sent. */
const submissionName = 'submission';
const submissionId = 'tpl_submission';

/** Whether mailctl itself created the template. Lists mark it, and `template pull` skips it. */
export function isBuiltIn(template: {readonly id: string}): boolean {
	return template.id === submissionId;
}

const placeholderHtml = '<p>Mail submitted by SMTP is sent unchanged. This template is a placeholder.</p>';
const placeholder: TemplateVariant = {
	locale: null,
	subject: 'Submitted by SMTP',
	kind: 'html',
	source: placeholderHtml,
	text_source: null,
	own_source: null,
	own_text_source: null,
	html: placeholderHtml,
	text: null,
};

/**
 * Returns the id of the submission template, or `undefined` if it does not exist. A template that the workspace created
 * under that name is used too.
 */
export async function findSubmissionTemplate(reader: Knex, workspaceId: string): Promise<string | undefined> {
	const template =
		(await findTemplate(reader, workspaceId, {id: submissionId})) ??
		(await findTemplate(reader, workspaceId, {name: submissionName}));
	return template && template.latest_version !== null ? template.id : undefined;
}

export async function ensureSubmissionTemplate(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
): Promise<string> {
	const existing = await findSubmissionTemplate(trx, workspaceId);
	if (existing !== undefined) {
		return existing;
	}
	const isTaken = (await findTemplate(trx, workspaceId, {id: submissionId})) !== undefined;
	const named = {id: isTaken ? null : submissionId, name: submissionName};
	return (await saveTemplate(trx, tools, {workspaceId, ...named, variants: [placeholder], sample: null})).id;
}

/** The input of a preview. `null` stands for the value of the workspace or version. */
type PreviewOptions = {
	readonly workspace: Pick<Workspace, 'name' | 'locale' | 'timezone'>;
	/** The variables as JSON; `null` for the version's sample. */
	readonly data: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	/** Renders in a worker thread: `renderInWorker` or a wrapper of it. */
	readonly render: (job: RenderJob) => Promise<RenderResult>;
};

export type PreviewInput = PreviewOptions & {
	readonly template: Template;
	/** `null` for the newest version. */
	readonly version: number | null;
};

/** Renders a version with sample data. Returns `undefined` if the version does not exist. */
export async function previewTemplate(
	reader: Knex,
	{template, version, ...options}: PreviewInput,
): Promise<RenderResult | undefined> {
	const {workspace, locale} = options;
	const number = version ?? template.latest_version;
	const row = number === null ? undefined : await findVersion(reader, template.row_id, number);
	const variants = row ? await listVariants(reader, row.id) : [];
	const variant = chooseVariant(variants, locale ?? workspace.locale ?? 'en', workspace.locale);
	return row && variant && (await previewVariant(row, variant, options));
}

/** Renders one variant with sample data. */
export async function previewVariant(
	{id, sample}: Pick<TemplateVersion, 'id' | 'sample'>,
	{subject, html, text, locale: variantLocale}: Pick<TemplateVariant, 'subject' | 'html' | 'text' | 'locale'>,
	{workspace, data, locale, timezone, render}: PreviewOptions,
): Promise<RenderResult> {
	const recipientLocale = locale ?? workspace.locale ?? 'en';
	return await render({
		variant: {id, subject, html, text},
		input: {
			data: data ?? sample ?? '{}',
			locale: recipientLocale,
			timezone: timezone ?? workspace.timezone ?? 'UTC',
			recipient: {email: 'recipient@example.com'},
			unsubscribe_url: 'https://example.com/unsubscribe',
			preferences_url: 'https://example.com/preferences',
			workspace: {name: workspace.name},
			message: {id: 'msg_00000000000000000000000000', locale: mailLocale(variantLocale, recipientLocale)},
		},
	});
}
