import type {Saved} from '../admin/templates.ts';
import type {Template, TemplateVariant, TemplateVersion} from '../store/templates.ts';
import type {Session} from './session.ts';
import {fields, table} from './table.ts';
import {shortTime} from './text.ts';

export function view(row: Template) {
	return {
		id: row.id,
		name: row.name,
		version: row.latest_version,
		created_at: row.created_at,
		updated_at: row.updated_at,
	};
}

export function showTemplate(
	session: Session,
	row: Template,
	versions: readonly TemplateVersion[],
	variants: readonly TemplateVariant[],
): void {
	const json = {
		...view(row),
		variants: variants.map(({locale, subject, kind, source, text_source: text}) => ({
			locale,
			subject,
			[kind]: source,
			text,
		})),
		sample: versions[0]?.sample ? JSON.parse(versions[0].sample) : null,
		versions: versions.map(({version, created_at: createdAt}) => ({version, created_at: createdAt})),
	};
	session.show(json, () => [
		...fields([
			['id', row.id],
			['name', row.name],
			['version', row.latest_version],
			['changed', `${shortTime(row.updated_at)} UTC`],
		]),
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
	]);
}

export function showSaved(
	session: Session,
	saved: ReadonlyArray<Omit<Saved, 'id'> & {id: string | null}>,
	dry: boolean,
): void {
	session.show(saved, () =>
		table<(typeof saved)[number]>(
			[
				{title: 'ID', cell: row => row.id},
				{title: 'NAME', cell: row => row.name, cut: true},
				{title: 'VERSION', cell: row => row.version, right: true},
				{title: 'CHANGE', cell: row => (row.changed ? (dry ? 'would be saved' : 'saved') : 'none')},
			],
			saved,
			session.terminal.width,
		),
	);
}
