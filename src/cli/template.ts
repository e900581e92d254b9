import {writeFile} from 'node:fs/promises';
import type {Command} from 'commander';
import type {Knex} from 'knex';
import {
	type Content,
	conflictOf,
	createTemplate,
	isContent,
	isTooLargeVersion,
	largestVersion,
	type Named,
	removeTemplate,
	rollBack,
	type Saved,
	saveTemplate,
} from '../admin/templates.ts';
import {writeExact} from '../kit/exact-json.ts';
import {
	findTemplate,
	findVersion,
	listTemplates,
	listVariants,
	listVersions,
	type Template,
} from '../store/templates.ts';
import {CliError} from './fault.ts';
import {readVariables} from './files.ts';
import {count, label, locale, templateId, timezone} from './options.ts';
import {verb, yesOption, yesVerb} from './program.ts';
import {action, type Session} from './session.ts';
import type {PullOptions} from './template-pull.ts';
import {showSaved, showTemplate, templateNoun} from './template-view.ts';
import {printable} from './text.ts';

type PreviewOptions = {locale?: string; timezone?: string; data?: string; out?: string};

export function templateCommands(template: Command): void {
	verb(
		template,
		'create',
		'Make a template without a version',
		'mailctl template create --name receipt --id tpl_receipt',
	)
		.requiredOption('--name <name>', 'its name, unique in the workspace', label('--name'))
		.option('--id <id>', 'its id, unique in the workspace: the same in staging and production', templateId)
		.action(
			action<{name: string; id?: string}, []>(async (session, {name, id = null}) => {
				const {id: workspaceId} = await session.workspace();
				const created = await session.write(trx => createTemplate(trx, session.tools, workspaceId, {id, name}));
				if (typeof created === 'string') {
					const taken = created === 'id' ? id : name;
					throw new CliError('data', `there is a template ${taken} already`, `choose another ${created}`);
				}
				session.show(templateNoun.json(created), () => [
					`made ${created.id} (${name}); give it a version with mailctl template push`,
				]);
			}),
		);

	verb(template, 'list', 'List templates, newest first', 'mailctl template list').action(
		action(async session => {
			const {id} = await session.workspace();
			const rows = await listTemplates(await session.reader(), id);
			session.list(templateNoun, rows);
		}),
	);

	verb(template, 'show <template>', 'Show a template, by id or name', 'mailctl template show receipt').action(
		action<object, [string]>(async (session, _options, key) => {
			const found = await chosenTemplate(session, key);
			const reader = await session.reader();
			const versions = await listVersions(reader, found.row_id);
			const variants = versions[0] ? await listVariants(reader, versions[0].id) : [];
			showTemplate(session, found, versions, variants);
		}),
	);

	verb(
		template,
		'push <dir>',
		'Save template folders as new versions, all or none',
		'mailctl template push templates --dry-run',
	)
		.option('--dry-run', 'show what would change; change nothing')
		.action(
			action<{dryRun?: boolean}, [string]>(async (session, {dryRun}, folder) => {
				const {id: workspaceId} = await session.workspace();
				const templates = await readFolder(folder);
				const saved = dryRun
					? await compare(await session.reader(), workspaceId, templates)
					: await session.write(async trx => {
							await refuseConflicts(trx, workspaceId, templates);
							const results: Saved[] = [];
							for (const ready of templates) {
								results.push(await saveTemplate(trx, session.tools, {workspaceId, ...ready}));
							}
							return results;
						});
				showSaved(session, saved, dryRun ?? false);
			}),
		);

	yesOption(
		verb(
			template,
			'pull <dir>',
			'Write the newest versions as template folders',
			'mailctl template pull templates --dry-run',
		).option('--dry-run', 'show what would change; change nothing'),
	).action(
		action<PullOptions, [string]>(async (session, options, folder) => {
			const {pull} = await import('./template-pull.ts');
			await pull(session, options, folder);
		}),
	);

	verb(
		template,
		'rollback <template> <version>',
		'Save an old version as the newest again',
		'mailctl template rollback receipt 3',
	).action(action<object, [string, string]>(rollback));

	verb(
		template,
		'preview <template>',
		'Render the newest version',
		'mailctl template preview receipt --locale de --data sample.json --out receipt.html',
	)
		.option('--locale <tag>', 'language of the recipient', locale)
		.option('--timezone <zone>', 'zone of the recipient', timezone)
		.option('--data <file>', 'variables, JSON, instead of the sample; -: standard input')
		.option('--out <file>', 'write the html there')
		.action(action<PreviewOptions, [string]>(preview));

	yesVerb(
		template,
		'delete <template>',
		'Delete a template; mail accepted with it still goes out',
		'mailctl template delete receipt --yes',
	).action(
		action<{yes?: boolean}, [string]>(async (session, {yes}, key) => {
			const {id, name, workspace_id: workspaceId} = await chosenTemplate(session, key);
			await session.confirm(`Delete the template ${name}?`, yes);
			await session.write(trx => removeTemplate(trx, session.tools, workspaceId, id));
			session.show({id, name, deleted: true}, () => [`deleted ${id} (${name})`]);
		}),
	);
}

/** By id or name, in the chosen workspace. */
export async function chosenTemplate(session: Session, key: string): Promise<Template> {
	const id = await session.idOf('tpl', key);
	const {id: workspaceId} = await session.workspace();
	const found = await findTemplate(await session.reader(), workspaceId, id === undefined ? {name: key} : {id});
	if (!found) {
		throw new CliError('data', `there is no template ${key}`, 'see mailctl template list');
	}
	return found;
}

async function readFolder(folder: string) {
	const {readTemplates} = await import('../admin/template-folder.ts');
	const read = await readTemplates(folder).catch((error: NodeJS.ErrnoException) => {
		if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
			throw new CliError('data', `there is no folder ${folder}`, 'name a template folder or a folder of them');
		}
		throw error;
	});
	if (!read.ok) {
		throw new CliError('data', 'nothing was saved', 'fix the faults above and push again', read.problems);
	}
	if (read.templates.length === 0) {
		throw new CliError('data', `${folder} holds no template`, 'give each one a folder with a template.json');
	}
	const large = read.templates.filter(({variants}) => isTooLargeVersion(variants));
	if (large.length > 0) {
		const most = `has more than ${largestVersion} characters, all languages and what they compile to together`;
		const problems = large.map(({name}) => `${name}: ${most}`);
		throw new CliError('data', 'nothing was saved', 'shorten or remove a language', problems);
	}
	return read.templates;
}

/** Throws bad data (65) where other templates have the ids or the names. */
async function refuseConflicts(reader: Knex, workspaceId: string, templates: readonly Named[]): Promise<void> {
	const problems: string[] = [];
	for (const template of templates) {
		const conflict = await conflictOf(reader, workspaceId, template);
		problems.push(...(conflict === null ? [] : [`${template.name}/template.json: ${conflict}`]));
	}
	if (problems.length > 0) {
		throw new CliError('data', 'nothing was saved', 'name the folder after the template, or change its id', problems);
	}
}

async function compare(
	reader: Knex,
	workspaceId: string,
	templates: ReadonlyArray<Content & Named>,
): Promise<Array<Omit<Saved, 'id'> & {readonly id: string | null}>> {
	await refuseConflicts(reader, workspaceId, templates);
	const saved = [];
	for (const {id, name, ...content} of templates) {
		const found = await findTemplate(reader, workspaceId, {name});
		const latest = found?.latest_version ?? 0;
		const newest = found && latest > 0 ? await findVersion(reader, found.row_id, latest) : undefined;
		const changed = !(newest && isContent(newest, content));
		saved.push({id: found?.id ?? id, name, version: changed ? latest + 1 : latest, changed});
	}
	return saved;
}

async function rollback(session: Session, _options: object, key: string, text: string): Promise<void> {
	const version = count('VERSION', 1, 2 ** 31 - 1)(text);
	const {id, name, workspace_id: workspaceId} = await chosenTemplate(session, key);
	const saved = await session.write(trx => rollBack(trx, session.tools, {workspaceId, id, version}));
	if (saved === undefined) {
		throw new CliError('data', `${name} has no version ${version}`, `see mailctl template show ${id}`);
	}
	if (saved === 'newest') {
		throw new CliError('data', `version ${version} of ${name} is the newest`, 'name an older one');
	}
	session.show({id, name, version: saved.version, restored: version}, () => [
		`saved version ${saved.version} of ${id} (${printable(name)}), equal to version ${version}`,
	]);
}

async function preview(session: Session, options: PreviewOptions, key: string): Promise<void> {
	const template = await chosenTemplate(session, key);
	const workspace = await session.workspace();
	const data = options.data === undefined ? null : writeExact(await readVariables(options.data));
	const {previewTemplate} = await import('../admin/preview.ts');
	const {renderInWorker} = await import('../render/in-worker.ts');
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
		throw new CliError('data', `the template fails at ${rendered.message}`, 'correct it or its variables');
	}
	const {subject, html, text} = rendered;
	if (options.out !== undefined) {
		await writeFile(options.out, html);
	}
	session.show({subject, html, text}, () => [
		`Subject: ${printable(subject)}`,
		'',
		...text.trimEnd().split('\n').map(printable),
		'',
		options.out === undefined ? 'The html: --out FILE, or --json.' : `The html is in ${options.out}.`,
	]);
}
