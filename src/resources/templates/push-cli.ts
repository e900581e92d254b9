import {existsSync} from 'node:fs';
import path from 'node:path';
import type {Knex} from 'knex';
import {CliError} from '../../cli/fault.ts';
import type {Session} from '../../cli/session.ts';
import {fileOf} from '../../compose/render/layouts.ts';
import {lookUpTopic} from '../topics/store.ts';
import type {Change, LayoutSnapshot, ReadyTemplate} from './layouts.ts';
import {findConflict} from './versions.ts';

/** Saves template folders, and the layouts and partials beside them, with all templates that use those. */
export async function push(session: Session, {dryRun = false}: {dryRun?: boolean}, folder: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const {readSnapshot, saveChange} = await import('./layouts.ts');
	const change = await readFolder(folder, await readSnapshot(reader, workspaceId));
	const layouts = change.layouts.map(layout => {
		const file = fileOf(layout, layout.kind === 'layout' ? '' : `${layout.name}.liquid`);
		return {id: null, name: file.replace(/\/$/, ''), version: null, changed: true};
	});
	if (dryRun) {
		await refuseConflicts(reader, workspaceId, change.templates);
		const templates = await previewChange(reader, workspaceId, change);
		showSaved(session, [...layouts, ...templates], true);
		const diffs = templates.map(({diff}) => diff).join('');
		if (!session.json && diffs !== '') {
			session.show(null, () => ['', ...diffs.trimEnd().split('\n')]);
		}
		return;
	}
	const saved = await session.write(async trx => {
		await refuseConflicts(trx, workspaceId, change.templates);
		return await saveChange(trx, session.tools, workspaceId, change);
	});
	showSaved(session, [...layouts, ...saved], false);
}

/** Returns what would be saved of each template, with its diff. */
async function previewChange(reader: Knex, workspaceId: string, change: Change) {
	const {Diffs, previewEffects} = await import('./layout-changes.ts');
	const diffs = new Diffs();
	const rows = [];
	for await (const effect of previewEffects(reader, workspaceId, change)) {
		const {variants: _, ...row} = effect;
		rows.push({...row, diff: effect.changed ? await diffs.write(effect) : ''});
	}
	return rows;
}

async function readFolder(folder: string, known: LayoutSnapshot) {
	const {readTemplates} = await import('./template-folder.ts');
	const read = await readTemplates(folder, known).catch((error: NodeJS.ErrnoException) => {
		if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
			throw new CliError('data', `folder ${folder} not found`, 'use a template folder, or a folder of them');
		}
		throw error;
	});
	if (!read.ok) {
		throw new CliError('data', 'nothing was saved', 'fix the problems above and push again', read.problems);
	}
	const hasSharedParts = ['_layouts', '_partials'].some(name => existsSync(path.join(folder, name)));
	if (read.change.templates.length === 0 && !hasSharedParts) {
		throw new CliError(
			'data',
			`${folder} contains no template`,
			'create a folder with a template.json for each one',
		);
	}
	return read.change;
}

/** Throws bad data (65) if other templates already have the ids or names, or if a topic does not exist. */
async function refuseConflicts(reader: Knex, workspaceId: string, templates: readonly ReadyTemplate[]): Promise<void> {
	const problems: string[] = [];
	for (const template of templates) {
		const conflict = await findConflict(reader, workspaceId, template);
		const topic = template.settings?.topic;
		const isMissing = topic && !(await lookUpTopic(reader, workspaceId, topic));
		const found = [...(conflict === null ? [] : [conflict]), ...(isMissing ? [`topic ${topic} not found`] : [])];
		problems.push(...found.map(problem => `${template.name}/template.json: ${problem}`));
	}
	if (problems.length > 0) {
		throw new CliError('data', 'nothing was saved', 'fix the problems above and push again', problems);
	}
}

type Row = {
	readonly id: string | null;
	readonly name: string;
	readonly version: number | null;
	readonly changed: boolean;
};

function showSaved(session: Session, saved: readonly Row[], isDryRun: boolean): void {
	session.list<Row>(
		{
			none: 'nothing to save: the folder equals what is stored',
			json: row => row,
			fields: [
				{title: 'ID', cell: row => row.id, id: true},
				{title: 'NAME', cell: row => row.name, cut: true},
				{title: 'VERSION', cell: row => row.version, right: true},
				{title: 'CHANGE', cell: row => (row.changed ? (isDryRun ? 'would be saved' : 'saved') : 'none')},
			],
		},
		saved,
	);
}
