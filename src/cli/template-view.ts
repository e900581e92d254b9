import {isBuiltIn} from '../admin/submission-template.ts';
import type {Saved} from '../admin/templates.ts';
import {parseExact} from '../kit/exact-json.ts';
import type {Template, TemplateVariant, TemplateVersion} from '../store/templates.ts';
import type {Session} from './session.ts';
import {type Noun, shortTime, table} from './text.ts';

export const templateNoun: Noun<Template> = {
	none: 'no templates, mailctl template push stores a folder',
	json: row => ({
		id: row.id,
		name: row.name,
		version: row.latest_version,
		built_in: isBuiltIn(row),
		created_at: row.created_at,
		updated_at: row.updated_at,
	}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'NAME', name: 'name', cell: row => (isBuiltIn(row) ? `${row.name} (built in)` : row.name), cut: true},
		{title: 'VERSION', name: 'version', cell: row => row.latest_version, right: true},
		{title: 'CHANGED (UTC)', cell: row => shortTime(row.updated_at)},
		{name: 'changed', cell: row => `${shortTime(row.updated_at)} UTC`},
	],
};

export function showTemplate(
	session: Session,
	row: Template,
	versions: readonly TemplateVersion[],
	variants: readonly TemplateVariant[],
): void {
	const json = {
		variants: variants.map(({locale, subject, kind, source, text_source: text}) => ({
			locale,
			subject,
			[kind]: source,
			text,
		})),
		sample: versions[0]?.sample ? parseExact(versions[0].sample) : null,
		versions: versions.map(({version, created_at: createdAt}) => ({version, created_at: createdAt})),
	};
	const lines = [
		'',
		...table<TemplateVariant>(
			[
				{title: 'LOCALE', cell: variant => variant.locale ?? 'default'},
				{title: 'BODY', cell: variant => variant.kind},
				{title: 'TEXT', cell: variant => (variant.text_source === null ? 'made from html' : 'own')},
				{title: 'SUBJECT', cell: variant => variant.subject, cut: true},
			],
			variants,
			session.terminal.width,
		),
		'',
		...table<TemplateVersion>(
			[
				{title: 'VERSION', cell: version => version.version, right: true},
				{title: 'SAVED (UTC)', cell: version => shortTime(version.created_at)},
			],
			versions,
			session.terminal.width,
		),
	];
	session.one(templateNoun, row, {json, lines});
}

export function showSaved(
	session: Session,
	saved: ReadonlyArray<Omit<Saved, 'id'> & {id: string | null}>,
	dry: boolean,
): void {
	session.list<(typeof saved)[number]>(
		{
			none: 'the folder holds no templates',
			json: row => row,
			fields: [
				{title: 'ID', cell: row => row.id, id: true},
				{title: 'NAME', cell: row => row.name, cut: true},
				{title: 'VERSION', cell: row => row.version, right: true},
				{title: 'CHANGE', cell: row => (row.changed ? (dry ? 'would be saved' : 'saved') : 'none')},
			],
		},
		saved,
	);
}
