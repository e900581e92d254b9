import {existsSync} from 'node:fs';
import {writeFile} from 'node:fs/promises';
import path from 'node:path';
import type {Knex} from 'knex';
import {CliError} from '../../cli/fault.ts';
import {fieldColumns} from '../../cli/field-options.ts';
import {readVariables} from '../../cli/files.ts';
import {collect, count, locale, timezone} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, printable, shortTime, table} from '../../cli/terminal-text.ts';
import {operationVerb} from '../../cli/verbs.ts';
import {folderFiles} from '../../compose/render/folder.ts';
import {parseExact, writeExact} from '../../kit/exact-json.ts';
import {cidWarnings} from '../../mail/content-id.ts';
import {Type} from '../../mail/type.ts';
import {settingsView} from '../views.ts';
import {listLayouts, readLayouts} from './layouts-store.ts';
import {push} from './push-cli.ts';
import {createTemplate, removeTemplate, rollBackTemplate, templateSettings, updateTemplate} from './rules.ts';
import {
	findTemplate,
	findVersion,
	type ListedVersion,
	listTemplates,
	listVariants,
	listVersions,
	type Template,
	type TemplateVariant,
	type TemplateVersion,
} from './store.ts';
import {applyPlan, type FileChange, folderNameProblem, type Plan, planLayouts, planPull} from './template-folder.ts';
import {isBuiltIn, variantSource} from './versions.ts';

type PreviewOptions = {locale?: string; timezone?: string; data?: string; out?: string; contentId?: string[]};

const byTemplate = {
	by: 'template',
	find: async (session: Session, key: string) => ({id: (await chosenTemplate(session, key)).id}),
};

export function templateCommands(template: CliCommand): void {
	operationVerb(template, createTemplate, {
		sample: 'mailctl template create --name receipt --id tpl_receipt',
		only: ['name', 'id'],
		shows: (session, {template: row}) => session.printRow(templateNoun, row),
	});
	operationVerb(template, updateTemplate, {
		...byTemplate,
		sample: 'mailctl template update login-code --priority high --sensitive code',
		shows: templateNoun,
	});

	template.verb('list', 'List templates, newest first').sample('mailctl template list').does(list);

	template
		.verb('show <template>', 'Show a template, by id or name')
		.sample('mailctl template show receipt')
		.does<object, [string]>(show);

	template
		.verb('push <dir>', 'Save template folders as new versions, with _layouts and _partials, all or nothing')
		.sample('mailctl template push templates --dry-run')
		.option('--dry-run', 'print the changes without making them')
		.does<{dryRun?: boolean}, [string]>(push);

	template
		.verb('pull <dir>', 'Write the newest versions as template folders')
		.sample('mailctl template pull templates --dry-run')
		.option('--dry-run', 'print the changes without making them')
		.yesOption()
		.does<PullOptions, [string]>(pull);

	template
		.verb('rollback <template> <version>', 'Save an old version as the newest again')
		.sample('mailctl template rollback receipt 3')
		.does<object, [string, string]>(rollback);

	template
		.verb('preview <template>', 'Render the newest version')
		.sample('mailctl template preview receipt --locale de --data sample.json --out receipt.html')
		.option('--locale <tag>', 'language of the recipient', locale)
		.option('--timezone <zone>', 'zone of the recipient', timezone)
		.option('--data <file>', 'JSON file of variables instead of the sample; - is standard input')
		.option('--out <file>', 'write the HTML to this file')
		.option('--content-id <id>', 'content id of an attachment of the send; repeatable', collect)
		.does<PreviewOptions, [string]>(preview);

	operationVerb(template, removeTemplate, {
		...byTemplate,
		sample: 'mailctl template delete receipt --yes',
		question: (_session, key) => `Delete the template ${key}?`,
		shows: (session, {id, name}) =>
			session.show({id, name, deleted: true}, () => [`deleted ${id} (${printable(name)})`]),
	});
}

async function list(session: Session): Promise<void> {
	const {reader, workspaceId} = await session.inWorkspace();
	session.list(templateNoun, await listTemplates(reader, workspaceId));
}

async function show(session: Session, _options: object, key: string): Promise<void> {
	const row = await chosenTemplate(session, key);
	const reader = await session.reader();
	const versions = await listVersions(reader, row.row_id);
	const latest = row.latest_version;
	const newest = latest === null ? undefined : await findVersion(reader, row.row_id, latest);
	const variants = newest ? await listVariants(reader, newest.id) : [];
	showTemplate(session, row, versions, {sample: null, layout: null, ...newest, variants});
}

/** Finds a template by id or name. Throws bad data (65) if it does not exist. */
export async function chosenTemplate(session: Session, key: string): Promise<Template> {
	const id = await session.idOf('tpl', key);
	const {id: workspaceId} = await session.workspace();
	const row = await findTemplate(await session.reader(), workspaceId, id === undefined ? {name: key} : {id});
	if (!row) {
		throw new CliError('data', `template ${key} not found`, 'see mailctl template list');
	}
	return row;
}

async function rollback(session: Session, _options: object, key: string, text: string): Promise<void> {
	const version = count('VERSION', 1, 2 ** 31 - 1)(text);
	const {id} = await chosenTemplate(session, key);
	const saved = await session.perform(rollBackTemplate, {id, version});
	session.show(saved, () => [
		`saved version ${saved.version} of ${id} (${printable(saved.name)}), equal to version ${version}`,
	]);
}

async function preview(session: Session, options: PreviewOptions, key: string): Promise<void> {
	const template = await chosenTemplate(session, key);
	const workspace = await session.workspace();
	const data = options.data === undefined ? null : writeExact(await readVariables(options.data));
	const {previewTemplate} = await import('./versions.ts');
	const {renderInWorker} = await import('../../compose/render/in-worker.ts');
	const rendered = await previewTemplate(await session.reader(), {
		workspace,
		template,
		version: null,
		data,
		locale: options.locale ?? null,
		timezone: options.timezone ?? null,
		render: renderInWorker,
	});
	if (!rendered) {
		throw new CliError('data', `the template ${key} has no version`, 'save one with mailctl template push');
	}
	if (!rendered.ok) {
		throw new CliError('data', `the template fails at ${rendered.message}`, 'fix the template or its variables');
	}
	const {subject, html, text} = rendered;
	const warnings = cidWarnings(html, options.contentId ?? []);
	if (options.out !== undefined) {
		await writeFile(options.out, html);
	}
	session.show({subject, html, text, ...(warnings.length > 0 && {warnings})}, () => [
		`Subject: ${printable(subject)}`,
		'',
		...text.trimEnd().split('\n').map(printable),
		'',
		...warnings.map(warning => `Warning: ${printable(warning)}.`),
		options.out === undefined ? 'For the HTML, use --out FILE or --json.' : `The HTML is in ${options.out}.`,
	]);
}

export const templateNoun: Noun<Template> = {
	none: 'no templates; save a folder with mailctl template push',
	json: row => ({
		id: row.id,
		name: row.name,
		version: row.latest_version,
		...settingsView(row),
		built_in: isBuiltIn(row),
		created_at: row.created_at,
		updated_at: row.updated_at,
	}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'NAME', name: 'name', cell: row => (isBuiltIn(row) ? `${row.name} (built in)` : row.name), cut: true},
		{title: 'VERSION', cell: row => row.latest_version, right: true},
		{name: 'version', cell: row => row.latest_version ?? 'none; add one with mailctl template push'},
		{title: 'CHANGED (UTC)', cell: row => shortTime(row.updated_at)},
		...fieldColumns<Template>(Type.Object(templateSettings), row => row),
		{name: 'changed', cell: row => `${shortTime(row.updated_at)} UTC`},
	],
};

export function showTemplate(
	session: Session,
	row: Template,
	versions: readonly ListedVersion[],
	{variants, sample, layout}: Pick<TemplateVersion, 'sample' | 'layout'> & {variants: readonly TemplateVariant[]},
): void {
	const json = {
		variants: variants.map(variant => {
			const {locale, subject, text = null, ...body} = variantSource(variant);
			return {locale, subject, ...body, text};
		}),
		layout,
		sample: sample === null ? null : parseExact(sample),
		versions: versions.map(({version, created_at: createdAt}) => ({version, created_at: createdAt})),
	};
	const lines = [
		...(layout ? ['', `Layout ${layout}`] : []),
		'',
		...table<TemplateVariant>(
			[
				{title: 'LOCALE', cell: variant => variant.locale ?? 'default'},
				{title: 'BODY', cell: variant => variant.kind},
				{title: 'TEXT', cell: variant => (variant.text_source === null ? 'from HTML body' : 'own')},
				{title: 'SUBJECT', cell: variant => variant.subject, cut: true},
			],
			variants,
			session.terminal.width,
		),
		'',
		...table<ListedVersion>(
			[
				{title: 'VERSION', cell: version => version.version, right: true},
				{title: 'SAVED (UTC)', cell: version => shortTime(version.created_at)},
			],
			versions,
			session.terminal.width,
		),
	];
	session.printRow(templateNoun, row, {json, lines});
}

type PullOptions = {dryRun?: boolean; yes?: boolean};

/** A template and the plan for its folder, which is `null` if the template has no version yet. */
type Pulled = {
	readonly template: Pick<Template, 'name' | 'latest_version'> & {readonly id: string | null};
	readonly plan: Plan | null;
};

/** Writes the newest versions as template folders. Asks before it changes existing files. */
async function pull(session: Session, {dryRun = false, yes}: PullOptions, folder: string): Promise<void> {
	const reader = await session.reader();
	const pulled: Pulled[] = [];
	for (const [template, templateFolder] of await pairFolders(session, reader, folder)) {
		pulled.push({template, plan: await planTemplate(reader, template, templateFolder)});
	}
	if (!existsSync(path.join(folder, 'template.json'))) {
		const {id} = await session.workspace();
		const layouts = await readLayouts(reader, id, await listLayouts(reader, id));
		for (const plan of await planLayouts(folder, layouts)) {
			const name = path.relative(folder, plan.folder);
			pulled.push({template: {id: null, name, latest_version: null}, plan});
		}
	}
	const overwritten = pulled.flatMap(({plan}) => (plan ? findOverwritten(plan) : []));
	if (!dryRun) {
		if (overwritten.length > 0) {
			for (const {file, change} of yes ? [] : overwritten) {
				session.terminal.warn(`mailctl: ${file} would be ${change}`);
			}
			await session.confirm('Change existing files?', yes);
		}
		for (const {plan} of pulled) {
			await (plan && applyPlan(plan));
		}
	}
	showPulled(session, pulled, dryRun);
}

/** Pairs each template with its folder: `folder` itself if it is a template's folder, else a subfolder per template. */
async function pairFolders(session: Session, reader: Knex, folder: string): Promise<Array<[Template, string]>> {
	const {id: workspaceId} = await session.workspace();
	if (existsSync(path.join(folder, 'template.json'))) {
		const name = path.basename(path.resolve(folder));
		const row = await findTemplate(reader, workspaceId, {name});
		if (!row) {
			const wrong = `template ${name} not found: the folder name must be the name of a template`;
			throw new CliError('data', wrong, 'see mailctl template list');
		}
		return [[row, folder]];
	}
	const templates = (await listTemplates(reader, workspaceId))
		.filter(template => !isBuiltIn(template))
		.sort((a, b) => (a.name < b.name ? -1 : 1));
	const problems = templates.flatMap(({id, name}) => {
		const problem = folderNameProblem(name);
		return problem === null ? [] : [`${id}: its name ${JSON.stringify(name)} ${problem}`];
	});
	if (problems.length > 0) {
		throw new CliError(
			'data',
			'nothing was written',
			'create these templates under other names and delete the old ones',
			problems,
		);
	}
	return templates.map(template => [template, path.join(folder, template.name)]);
}

async function planTemplate(
	reader: Knex,
	{id, row_id: rowId, latest_version: latest, ...settings}: Template,
	folder: string,
): Promise<Plan | null> {
	const version = latest === null ? undefined : await findVersion(reader, rowId, latest);
	if (!version) {
		return null;
	}
	const variants = (await listVariants(reader, version.id)).map(variantSource);
	// A generated id is left out: in another installation, the template may already have a different one.
	const {sample, layout} = version;
	const files = folderFiles({id: id === rowId ? null : id, layout, settings, variants, sample});
	return await planPull(folder, files);
}

/** Returns the changes of a plan that overwrite or remove existing files. */
function findOverwritten({folder, steps}: Plan): FileChange[] {
	return steps
		.filter(({change}) => change === 'replaced' || change === 'removed')
		.map(({file, change}) => ({file: path.join(folder, file), change}));
}

function showPulled(session: Session, pulled: readonly Pulled[], isDryRun: boolean): void {
	const json = pulled.map(({template, plan}) => ({
		id: template.id,
		name: template.name,
		version: template.latest_version,
		folder: plan?.folder ?? null,
		files: (plan?.steps ?? []).map(({file, change}) => ({file, change})),
	}));
	session.show(json, () =>
		table<Pulled>(
			[
				{title: 'NAME', cell: ({template}) => template.name, cut: true},
				{title: 'VERSION', cell: ({template}) => template.latest_version, right: true},
				{title: 'FILES', cell: ({plan}) => (plan ? summarize(plan, isDryRun) : 'no version yet')},
			],
			pulled,
			session.terminal.width,
		),
	);
}

function summarize({steps}: Plan, isDryRun: boolean): string {
	const counts = (['written', 'replaced', 'removed'] as const).flatMap(change => {
		const count = steps.filter(step => step.change === change).length;
		return count === 0 ? [] : [`${count} ${change}`];
	});
	return counts.length === 0 ? 'no change' : `${isDryRun ? 'would be: ' : ''}${counts.join(', ')}`;
}
