import {existsSync} from 'node:fs';
import path from 'node:path';
import type {Knex} from 'knex';
import {isBuiltIn} from '../admin/submission-template.ts';
import {carryOut, type FileChange, folderNameFault, type Plan, planPull} from '../admin/template-folder.ts';
import {variantSource} from '../admin/templates.ts';
import {folderFiles} from '../render/folder.ts';
import {findTemplate, findVersion, listTemplates, listVariants, type Template} from '../store/templates.ts';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';
import {table} from './text.ts';

export type PullOptions = {dryRun?: boolean; yes?: boolean};

/** A template and what happens to its folder; null: it has no version yet. */
type Pulled = {readonly template: Template; readonly plan: Plan | null};

/** Writes the newest versions as template folders; asks before anything that is there changes. */
export async function pull(session: Session, {dryRun = false, yes}: PullOptions, folder: string): Promise<void> {
	const reader = await session.reader();
	const pulled: Pulled[] = [];
	for (const [template, into] of await foldersOf(session, reader, folder)) {
		pulled.push({template, plan: await planOf(reader, template, into)});
	}
	const losses = pulled.flatMap(({plan}) => (plan ? lossesOf(plan) : []));
	if (!dryRun) {
		if (losses.length > 0) {
			for (const {file, change} of yes ? [] : losses) {
				session.terminal.warn(`mailctl: ${file} would be ${change}`);
			}
			await session.confirm('Change what is there?', yes);
		}
		for (const {plan} of pulled) {
			await (plan && carryOut(plan));
		}
	}
	show(session, pulled, dryRun);
}

/** Each template with its folder: a template's own folder takes that template, any other folder takes one for each. */
async function foldersOf(session: Session, reader: Knex, folder: string): Promise<Array<[Template, string]>> {
	const {id: workspaceId} = await session.workspace();
	if (existsSync(path.join(folder, 'template.json'))) {
		const name = path.basename(path.resolve(folder));
		const found = await findTemplate(reader, workspaceId, {name});
		if (!found) {
			throw new CliError('data', `there is no template ${name}, as the folder is called`, 'see mailctl template list');
		}
		return [[found, folder]];
	}
	const templates = (await listTemplates(reader, workspaceId))
		.filter(template => !isBuiltIn(template))
		.sort((a, b) => (a.name < b.name ? -1 : 1));
	const unfit = templates.flatMap(({id, name}) => {
		const fault = folderNameFault(name);
		return fault === null ? [] : [`${id}: its name ${JSON.stringify(name)} ${fault}`];
	});
	if (unfit.length > 0) {
		throw new CliError(
			'data',
			'nothing was written',
			'make these templates again under other names and delete them',
			unfit,
		);
	}
	return templates.map(template => [template, path.join(folder, template.name)]);
}

async function planOf(
	reader: Knex,
	{id, row_id: rowId, latest_version: latest}: Template,
	folder: string,
): Promise<Plan | null> {
	const version = latest === null ? undefined : await findVersion(reader, rowId, latest);
	if (!version) {
		return null;
	}
	const variants = (await listVariants(reader, version.id)).map(variantSource);
	// A generated id is of no use elsewhere: there the template may have another one already.
	const files = folderFiles({id: id === rowId ? null : id, variants, sample: version.sample});
	return await planPull(folder, files);
}

function lossesOf({folder, steps}: Plan): FileChange[] {
	return steps
		.filter(({change}) => change === 'replaced' || change === 'removed')
		.map(({file, change}) => ({file: path.join(folder, file), change}));
}

function show(session: Session, pulled: readonly Pulled[], dryRun: boolean): void {
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
				{title: 'FILES', cell: ({plan}) => (plan ? counted(plan, dryRun) : 'no version yet')},
			],
			pulled,
			session.terminal.width,
		),
	);
}

function counted({steps}: Plan, dryRun: boolean): string {
	const counts = (['written', 'replaced', 'removed'] as const).flatMap(change => {
		const count = steps.filter(step => step.change === change).length;
		return count === 0 ? [] : [`${count} ${change}`];
	});
	return counts.length === 0 ? 'no change' : `${dryRun ? 'would be: ' : ''}${counts.join(', ')}`;
}
