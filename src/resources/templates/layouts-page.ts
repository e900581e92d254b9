import type {Knex} from 'knex';
import {filesOf, keyOf, type Layout, layoutName} from '../../compose/render/layouts.ts';
import {
	act,
	code,
	count,
	dangerItem,
	disclosure,
	input,
	join,
	menu,
	nothing,
	section,
	select,
	table,
	textarea,
	time,
} from '../../dashboard/markup.ts';
import {operationForms, pageForms, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {createTurns} from '../../kit/turns.ts';
import {notFound} from '../operation.ts';
import {changesBetween} from './compare-page.ts';
import {previewEffects} from './layout-changes.ts';
import {type Change, describeUsers, planChange, readSnapshot, saveChange} from './layouts.ts';
import {findLayout, listLayouts, listLayoutUsers} from './layouts-store.ts';
import {removeLayout} from './rules.ts';

const path = '/layouts';
/** The number of templates whose changes a review shows. The others are only named. */
const maxShown = 20;

const kinds = [
	{value: 'layout', label: 'Layout: surrounds the body of a template'},
	{value: 'partial', label: 'Partial: a snippet that templates and layouts include'},
];

/** The initial files of a layout or partial. */
const initialFiles = {
	layout: () => ({
		'body.mjml': `<mjml>
  <mj-body>
    {{ content }}
    <mj-section><mj-column><mj-text>{{ workspace.name }}</mj-text></mj-column></mj-section>
  </mj-body>
</mjml>
`,
	}),
	partial: (name: string) => ({[`${name}.liquid`]: '<mj-text>{{ workspace.name }}</mj-text>\n'}),
} as const;

/** The layouts and partials that templates share, with a review of how a change affects the templates that use them. */
export function layoutPages(parts: DashboardParts): readonly Route[] {
	const {reader, change} = parts;
	const turns = createTurns();

	async function list({workspace, form, now, may}: Visit, problem: string | null = null): Promise<Answer> {
		const known = await readUses(reader, workspace.id);
		const content = table<(typeof known.layouts)[number]>({
			label: 'Layouts and partials',
			link: row => `${path}/${keyOf(row)}`,
			columns: [
				{title: 'Name', cell: row => row.name},
				{title: 'Kind', cell: row => row.kind},
				{title: 'Used by', cell: row => describeUsers(known, row).join(', ') || 'nothing yet', cut: true},
				{title: 'Changed', cell: row => time(row.updated_at, now), right: true, wide: true},
			],
			rows: known.layouts,
			empty: html`<p>No layouts yet.</p><p>A layout surrounds the bodies of your messages; a partial is a snippet that they share. Create one here, or push a folder with <code>_layouts</code> and <code>_partials</code>.</p>`,
		});
		const fields = join([
			select({name: 'kind', label: 'Kind', value: form.get('kind') ?? 'layout'}, kinds),
			input({name: 'name', label: 'Name', value: form.get('name') ?? '', placeholder: 'main', required: true}),
		]);
		const actions = may('operator')
			? disclosure('New layout', act({to: path, label: 'Open the editor', fields}))
			: nothing;
		return {kind: 'page', place: 'layouts', title: 'Layouts', problem, actions, content};
	}

	async function create({form, ...visit}: Visit): Promise<Answer> {
		const name = form.get('name')?.trim() ?? '';
		const kind = form.get('kind') === 'partial' ? 'partial' : 'layout';
		if (!layoutName.test(name)) {
			rejectForm('The name must have 1 to 64 letters, digits, hyphens and underscores.');
		}
		const stored = await findLayout(reader, visit.workspace.id, {kind, name});
		const files = Object.entries(stored?.files ?? initialFiles[kind](name)).map(
			([file, text]): [string, string] => [`file:${file}`, text],
		);
		return await show({...visit, form: new URLSearchParams(files), params: {kind, name}});
	}

	/** Shows the layout that the path names, as it is saved or as the form contains it. */
	async function show(visit: Visit, problem: string | null = null, changes: Html | null = null): Promise<Answer> {
		const {layout, isSaved} = await readLayout(visit);
		const users = describeUsers(await readUses(reader, visit.workspace.id), layout);
		const mayAct = visit.may('operator');
		return {
			kind: 'page',
			place: 'layouts',
			title: `${layout.kind === 'layout' ? 'Layout' : 'Partial'} ${layout.name}`,
			problem,
			actions: html`<a class="button" href="${path}">All layouts</a>${
				isSaved && users.length === 0 && mayAct ? menu([removalItem(layout)]) : nothing
			}`,
			content: html`<p>${users.length === 0 ? 'Nothing uses it yet.' : `Used by ${users.join(', ')}.`}</p>${changes}${
				mayAct ? editor(layout, changes !== null) : texts(layout)
			}`,
		};
	}

	/** Returns the layout that the path names, as in the form or else as saved. Throws `Refused` if it is neither. */
	async function readLayout({workspace, params: {kind, name = ''}, form}: Visit) {
		const isKind = kind === 'layout' || kind === 'partial';
		const stored = isKind ? await findLayout(reader, workspace.id, {kind, name}) : undefined;
		const isTyped = [...form.keys()].some(field => field.startsWith('file:'));
		if (!isKind || !(stored || isTyped)) {
			return notFound('layout', name);
		}
		const files = isTyped ? readFiles(form) : (stored?.files ?? {});
		const layout: Layout = {kind, name, files};
		return {isSaved: stored !== undefined, layout};
	}

	/** Returns the change that saving the form makes. Throws if the form has problems. */
	async function planSave(visit: Visit): Promise<Change> {
		const {layout} = await readLayout(visit);
		const id = visit.workspace.id;
		const result = await turns(id, async () => planChange(await readSnapshot(reader, id), [layout]));
		return result.ok
			? result.change
			: rejectForm(`Nothing was saved: ${result.problems.slice(0, maxShown).join('; ')}.`);
	}

	async function review(visit: Visit): Promise<Answer> {
		const plan = await planSave(visit);
		const sections: Html[] = [];
		const rest: string[] = [];
		for await (const {name, version, variants, changed} of previewEffects(reader, visit.workspace.id, plan)) {
			if (changed && sections.length < maxShown) {
				const [before, after] = variants.map(side => ({variants: side, sample: null}));
				const parts = before && after ? await changesBetween(before, after) : [];
				sections.push(section(`${name}: version ${version}`, join(parts)));
			} else if (changed) {
				rest.push(name);
			}
		}
		const versions = sections.length + rest.length;
		const effect =
			plan.layouts.length === 0
				? 'Nothing has changed.'
				: `Saving this creates ${count(versions)} new template ${versions === 1 ? 'version' : 'versions'}.`;
		const notice = html`<div class="notice good" role="status"><p>${effect}</p></div>`;
		return await show(
			visit,
			null,
			html`${notice}${sections}${rest.length > 0 ? html`<p>Also changed: ${rest.join(', ')}.</p>` : nothing}`,
		);
	}

	async function save(visit: Visit): Promise<Answer> {
		const plan = await planSave(visit);
		const saved = await change(trx => saveChange(trx, visit.tools, visit.workspace.id, plan));
		const versions = saved.map(({name, version}) => `${name} is now at version ${version}`).slice(0, maxShown);
		return go(path, [`Saved ${visit.params.name}`, ...versions].join('; '));
	}

	const layoutPath = `${path}/:kind/:name`;
	const form = pageForms(show);
	return [
		page(path, list),
		pageForms(list)(path, 'operator', create),
		page(layoutPath, show),
		form(`${layoutPath}/review`, 'operator', review),
		form(layoutPath, 'operator', save),
		operationForms(parts, {path, show})(removeLayout, `${layoutPath}/delete`, ({name}) => `Removed ${name}.`),
	];
}

async function readUses(reader: Knex, workspaceId: string) {
	return {layouts: await listLayouts(reader, workspaceId), users: await listLayoutUsers(reader, workspaceId)};
}

/** Returns the files in the form, without empty ones. */
function readFiles(form: URLSearchParams): Layout['files'] {
	const fields = [...form].filter(([field, text]) => field.startsWith('file:') && text.trim() !== '');
	return Object.fromEntries(fields.map(([field, text]) => [field.slice(5), text.replaceAll('\r\n', '\n')]));
}

function editor(layout: Layout, isReviewed: boolean): Html {
	const to = `${path}/${keyOf(layout)}`;
	const texts = filesOf(layout).map(file =>
		textarea({name: `file:${file}`, label: file, value: layout.files[file] ?? ''}, layout.files[file] ? 18 : 3),
	);
	const reviewAgain = html`<div class="actions"><button formaction="${to}/review">Show what would change</button></div>`;
	const fields = join([...texts, ...(isReviewed ? [reviewAgain] : [])]);
	const hint =
		layout.kind === 'layout'
			? html`<p>${code('{{ content }}')} is where the body of a template goes.</p>`
			: nothing;
	return html`${hint}<div class="stack">${
		isReviewed
			? act({to, label: 'Save', fields})
			: act({to: `${to}/review`, label: 'Show what would change', fields})
	}</div>`;
}

const texts = ({files}: Layout): Html =>
	join(Object.entries(files).map(([file, text]) => section(file, html`<pre>${text}</pre>`)));

const removalItem = (layout: Layout): Html =>
	dangerItem({to: `${path}/${keyOf(layout)}/delete`, label: `Remove ${layout.name}`, about: 'Nothing uses it.'});
