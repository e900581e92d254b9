import path from 'node:path';
import type {Knex} from 'knex';
import {unifiedDiff} from '../kit/diff.ts';
import {storeTime} from '../kit/time.ts';
import type {ActTools} from '../mail/operator.ts';
import {notFound, Refused} from '../ops/operation.ts';
import type {VariantSource} from '../render/compile.ts';
import {compileInWorker, usualCompileTime} from '../render/in-worker.ts';
import {fileOf, filesOf, keyOf, type Layout, layoutFaults, layoutName, usedBy} from '../render/layouts.ts';
import {longestSource} from '../render/limits.ts';
import type {Violation} from '../render/liquid-source.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {deleteLayout, listLayouts, listResolved, putLayout, type StoredLayout} from '../store/layouts.ts';
import {
	findTemplate,
	findVersion,
	listVariants,
	type TemplateSettings,
	type TemplateVariant,
} from '../store/templates.ts';
import {
	addVersion,
	type Content,
	isContent,
	isTooLargeVersion,
	keepLayouts,
	largestVersion,
	type Named,
	type Saved,
	saveSettings,
	saveTemplate,
	storedVariant,
	variantSource,
} from './templates.ts';

/** A template as its author wrote it. */
export type Source = Named & {
	readonly variants: readonly VariantSource[];
	readonly sample: string | null;
	readonly layout: string | null;
	/** Of a folder. */
	readonly settings?: TemplateSettings;
};

/** A template, compiled and ready to be saved. */
export type ReadyTemplate = Named & Content & Pick<Source, 'settings'>;

/** What the store has at one time: layouts, partials, and the templates that use them as `latest` has them. */
export type Known = {
	readonly layouts: readonly StoredLayout[];
	readonly users: ReadonlyArray<
		Source & {readonly id: string; readonly latest: number; readonly uses: ReadonlySet<string>}
	>;
};

export const nothingKnown: Known = {layouts: [], users: []};

/** Layouts and templates that are saved together: all or none. */
export type Change = {
	readonly before: readonly StoredLayout[];
	/** Those that differ from `before`. */
	readonly layouts: readonly Layout[];
	readonly templates: readonly ReadyTemplate[];
	/** Templates that get a new version because they use one of `layouts`; `after`: their newest version. */
	readonly users: ReadonlyArray<ReadyTemplate & {readonly id: string; readonly after: number}>;
};

/** Problems: `receipt/body.mjml:3:5: …`, or `receipt: _layouts/main/body.mjml:3:5: …` where a template meets one of another file. */
export type Planned =
	| {readonly ok: true; readonly change: Change}
	| {readonly ok: false; readonly problems: readonly string[]};

/** Layouts and partials of one workspace: each change compiles what uses them, with all of them at hand. */
const mostLayouts = 200;

export async function readKnown(reader: Knex, workspaceId: string): Promise<Known> {
	const layouts = await listLayouts(reader, workspaceId);
	const users = [];
	for (const {id, name, version} of await listResolved(reader, workspaceId)) {
		const {layout, sample, version: latest} = version;
		const variants = (await listVariants(reader, version.id)).map(one => ({...variantSource(one), layout}));
		const texts = variants.flatMap(({mjml, html, text}) => [mjml ?? html ?? '', text ?? '']);
		users.push({id, name, sample, layout, variants, latest, uses: usedBy({layout, texts}, layouts)});
	}
	return {layouts, users};
}

/** What it takes to save these layouts and templates; nothing is changed yet. Compiles in a thread of its own. */
export async function planChange(
	{layouts: before, users}: Known,
	layouts: readonly Layout[],
	sources: readonly Source[] = [],
): Promise<Planned> {
	const isOf = (one: Layout) => (other: Layout) => keyOf(one) === keyOf(other);
	const changed = layouts.filter(one => !isSame(one, before.find(isOf(one))));
	const all: readonly Layout[] = [...before.filter(one => !layouts.some(isOf(one))), ...layouts];
	const problems = changed.flatMap(one => {
		const fault = formFault(one);
		const places = fault ? [] : layoutFaults(one, all);
		return fault ? [fault] : places.map(({file = fileOf(one, ''), ...place}) => placeText(file, place));
	});
	if (all.length > mostLayouts) {
		problems.push(`a workspace has at most ${mostLayouts} layouts and partials`);
	}
	const keys = changed.map(keyOf);
	const affected = users.filter(
		({name, uses}) => keys.some(key => uses.has(key)) && !sources.some(source => source.name === name),
	);
	if (problems.length > 0) {
		return {ok: false, problems};
	}
	const compiled = await compileTemplates([...sources, ...affected], all);
	return compiled.problems.length > 0
		? {ok: false, problems: compiled.problems}
		: {
				ok: true,
				change: {
					...{before, layouts: changed},
					templates: compiled.ready.slice(0, sources.length),
					users: affected.map((user, index) => ({
						...(compiled.ready[sources.length + index] as ReadyTemplate),
						...{id: user.id, after: user.latest},
					})),
				},
			};
}

const isSame = ({files}: Layout, other: Layout | undefined): boolean =>
	JSON.stringify(Object.entries(files).sort()) === JSON.stringify(Object.entries(other?.files ?? {}).sort());

/** Why name and files are not those of a layout or a partial; null: they are. */
function formFault(layout: Layout): string | null {
	const {name, files} = layout;
	if (!layoutName.test(name)) {
		return `${fileOf(layout, '')}: a name has 1 to 64 letters, digits, hyphens and underscores`;
	}
	const [names, own] = [Object.keys(files), filesOf(layout)];
	const odd = names.find(file => !own.includes(file));
	if (odd !== undefined) {
		return `${fileOf(layout, odd)}: must be ${own.join(', ')}`;
	}
	if (!names.some(file => !file.endsWith('.txt'))) {
		return `${fileOf(layout, own[0] ?? '')}: is missing`;
	}
	const long = names.find(file => Buffer.byteLength(files[file] ?? '') > longestSource);
	return long === undefined ? null : `${fileOf(layout, long)}: is longer than ${longestSource} octets`;
}

const placeText = (file: string, {line, column, message}: Pick<Violation, 'line' | 'column' | 'message'>): string =>
	`${file}:${line}:${column}: ${message}`;

/** All in one thread: loading MJML is most of the time. A little more of it for each variant: a hostile one must not fail many. */
async function compileTemplates(sources: readonly Source[], layouts: readonly Layout[]) {
	const all = sources.flatMap(({variants}) => variants);
	const results = all.length > 0 ? await compileInWorker(all, usualCompileTime + 500 * all.length, layouts) : [];
	const byVariant = new Map(all.map((variant, index) => [variant, results[index]]));
	const problems: string[] = [];
	const ready = sources.map(({id, name, variants, settings, sample, layout}): ReadyTemplate => {
		const stored = variants.flatMap(variant => {
			const result = byVariant.get(variant);
			problems.push(...(result?.ok === false ? result.violations : []).map(each => placeIn(name, variant, each)));
			return result?.ok ? [storedVariant(variant, result)] : [];
		});
		if (isTooLargeVersion(stored)) {
			const most = `has more than ${largestVersion} characters, all languages and what they compile to together`;
			problems.push(`${name}: ${most}: shorten or remove a language`);
		}
		return {id, name, variants: stored, ...(settings && {settings}), sample, layout};
	});
	return {ready, problems: [...new Set(problems)]};
}

/** Where a fault of a template is, for people. */
function placeIn(template: string, {locale}: VariantSource, {field, file, ...place}: Violation): string {
	const settings = path.join(template, 'template.json');
	if (file !== undefined) {
		return `${template}: ${placeText(file, place)}`;
	}
	if (field === 'layout') {
		return `${settings}: ${place.message}`;
	}
	if (field === 'subject') {
		return `${settings}: subject${locale ? ` of ${locale}` : ''}, column ${place.column}: ${place.message}`;
	}
	const own = `body${locale ? `.${locale}` : ''}.${field === 'text' ? 'txt' : field}`;
	return placeText(path.join(template, own), place);
}

/** Saves a change; `changed` false: the newest version is like this. Throws `Refused` where the store changed since it was planned. */
export async function saveChange(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	{before, layouts, templates, users}: Change,
): Promise<Saved[]> {
	await keepLayouts(trx, workspaceId, before);
	for (const layout of layouts) {
		await putLayout(trx, workspaceId, {...layout, updated_at: storeTime(tools.clock.now())});
		await recordAct(trx, tools, {action: 'layout.saved', workspaceId, target: keyOf(layout)});
	}
	const saved: Saved[] = [];
	for (const {settings, ...template} of templates) {
		const one = await saveTemplate(trx, tools, {workspaceId, ...template});
		const set = settings && (await saveSettings(trx, tools, {workspaceId, id: one.id, given: settings}));
		saved.push({...one, changed: one.changed || set?.changed === true});
	}
	for (const {name, after, ...user} of users) {
		const version = await addVersion(trx, tools, {workspaceId, after, ...user});
		if (typeof version !== 'object') {
			const wrong = `the template ${name} was changed meanwhile`;
			throw new Refused('conflict', {
				wrong,
				next: 'try again',
				api: `The template ${name} was changed meanwhile: try again.`,
			});
		}
		saved.push({id: user.id, name, version: version.version, changed: true});
	}
	return saved;
}

/** What a change makes of one template. */
export type Foreseen = Omit<Saved, 'id'> & {
	readonly id: string | null;
	/** What the newest version holds, and what the next one would. */
	readonly variants: readonly [before: readonly TemplateVariant[], after: readonly TemplateVariant[]];
};

/** What saving it would do. */
export async function foresee(reader: Knex, workspaceId: string, {templates, users}: Change): Promise<Foreseen[]> {
	const foreseen: Foreseen[] = [];
	for (const {id, name, settings, ...content} of [...templates, ...users]) {
		const found = await findTemplate(reader, workspaceId, {name});
		const latest = found?.latest_version ?? 0;
		const newest = found && latest > 0 ? await findVersion(reader, found.row_id, latest) : undefined;
		const isNext = !(newest && isContent(newest, content));
		const before = isNext && newest ? await listVariants(reader, newest.id) : [];
		const isOther = settings !== undefined && settingsText(found) !== settingsText(settings);
		const variants = [before, isNext ? content.variants : []] as const;
		const version = isNext ? latest + 1 : latest;
		foreseen.push({id: found?.id ?? id, name, version, changed: isNext || isOther, variants});
	}
	return foreseen;
}

const settingsText = ({topic = null, priority = null, sensitive = []}: Partial<TemplateSettings> = {}): string =>
	JSON.stringify([topic, priority, sensitive]);

/** A unified diff of the sources, layout and partials in them, language by language; empty: nothing differs. */
export function diffOf({name, version, variants: [before, after]}: Foreseen): string {
	const parts = (all: readonly TemplateVariant[]) =>
		new Map(
			all.flatMap(({locale, kind, source, text_source: text}) => {
				const own = path.join(name, locale === null ? 'body' : `body.${locale}`);
				return [[`${own}.${kind}`, source] as const, ...(text === null ? [] : [[`${own}.txt`, text] as const])];
			}),
		);
	const [old, fresh] = [parts(before), parts(after)];
	return [...new Set([...old.keys(), ...fresh.keys()])]
		.map(file => {
			const [from, to] = [old.get(file), fresh.get(file)];
			const title = [version - 1, version].map(number => `${file} (version ${number})`) as [string, string];
			return unifiedDiff(from === undefined ? ['/dev/null', title[1]] : title, from ?? '', to ?? '');
		})
		.join('');
}

/** Removes a layout or partial. Throws `Refused` where a template, a layout or a partial uses it, or it does not exist. */
export async function removeLayout(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	layout: Pick<Layout, 'kind' | 'name'>,
): Promise<void> {
	await listLayouts(trx, workspaceId, {lock: true});
	const names = usersOf(await readKnown(trx, workspaceId), layout);
	if (names.length > 0) {
		const wrong = `${names.join(', ')} ${names.length === 1 ? 'uses' : 'use'} the ${layout.kind} ${layout.name}`;
		throw new Refused('conflict', {
			wrong,
			next: 'save them without it first',
			api: `${wrong}: save them without it first.`,
		});
	}
	if (!(await deleteLayout(trx, workspaceId, layout))) {
		notFound(layout.kind, layout.name);
	}
	await recordAct(trx, tools, {action: 'layout.removed', workspaceId, target: keyOf(layout)});
	await bumpGeneration(trx);
}

/** The templates (names) and the layouts and partials (keys) that use it in their newest version. */
export function usersOf({layouts, users}: Known, layout: Pick<Layout, 'kind' | 'name'>): string[] {
	const key = keyOf(layout);
	const within = layouts.filter(
		one => keyOf(one) !== key && usedBy({layout: null, texts: Object.values(one.files)}, layouts).has(key),
	);
	return [...users.filter(({uses}) => uses.has(key)).map(({name}) => name), ...within.map(keyOf)];
}
