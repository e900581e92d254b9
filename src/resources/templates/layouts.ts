import path from 'node:path';
import type {Knex} from 'knex';
import type {CompileResult, VariantSource} from '../../compose/render/compile.ts';
import {compileAndCheck, defaultCompileTime} from '../../compose/render/in-worker.ts';
import {fileOf, filesOf, keyOf, type Layout, layoutName, reachedFrom} from '../../compose/render/layouts.ts';
import {maxSourceLength} from '../../compose/render/limits.ts';
import type {Violation} from '../../compose/render/liquid-source.ts';
import {storeTime} from '../../kit/time.ts';
import {layoutUses, partialsIn} from '../../mail/layout-uses.ts';
import type {ActTools} from '../../mail/operator.ts';
import {recordAct} from '../audit/store.ts';
import {Refused} from '../operation.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {
	type LayoutUser,
	type ListedLayout,
	listLayouts,
	listLayoutUsers,
	putLayout,
	readLayouts,
} from './layouts-store.ts';
import {findVersion, listVariants, type TemplateSettings} from './store.ts';
import {
	addVersion,
	type Content,
	isTooLargeVersion,
	lockUnchangedLayouts,
	maxVersionLength,
	type Named,
	type Saved,
	saveSettings,
	saveTemplate,
	storedVariant,
	variantSource,
} from './versions.ts';

/** A template as its author wrote it. */
export type Source = Named & {
	readonly variants: readonly VariantSource[];
	readonly sample: string | null;
	readonly layout: string | null;
	/** Set only if the source is a template folder. */
	readonly settings?: TemplateSettings;
};

/** A template, compiled and ready to be saved. */
export type ReadyTemplate = Named & Content & Pick<Source, 'settings'>;

/** A snapshot of a workspace's layouts, partials and the templates that use them. Sources are read on demand. */
export type LayoutSnapshot = {
	readonly layouts: readonly ListedLayout[];
	readonly users: readonly LayoutUser[];
	/** Reads the layouts with these keys and skips those that do not exist. */
	readonly readLayouts: (keys: readonly string[]) => Promise<readonly Layout[]>;
	readonly readSource: (user: LayoutUser) => Promise<Source>;
};

export const emptySnapshot: LayoutSnapshot = {
	layouts: [],
	users: [],
	readLayouts: async () => [],
	readSource: user => Promise.reject(new Error(`The template ${user.name} does not exist.`)),
};

/** Layouts and templates that are saved atomically. */
export type Change = {
	readonly before: readonly ListedLayout[];
	/** Those that differ from `before`. */
	readonly layouts: readonly Layout[];
	readonly templates: readonly ReadyTemplate[];
	/** Templates that get a new version because they use one of `layouts`. `after` is their newest version. */
	readonly users: ReadonlyArray<ReadyTemplate & {readonly id: string; readonly after: number}>;
};

/**
 * A change, or its problems: `receipt/body.mjml:3:5: …`, or `receipt: _layouts/main/body.mjml:3:5: …` if the problem of
 * a template is in another file.
 */
export type PlanResult =
	| {readonly ok: true; readonly change: Change}
	| {readonly ok: false; readonly problems: readonly string[]};

export async function readSnapshot(reader: Knex, workspaceId: string): Promise<LayoutSnapshot> {
	return {
		layouts: await listLayouts(reader, workspaceId),
		users: await listLayoutUsers(reader, workspaceId),
		readLayouts: keys => readLayouts(reader, workspaceId, keys.map(layoutKey)),
		async readSource({id, row_id: rowId, name, version}) {
			const row = await findVersion(reader, rowId, version);
			const {layout, sample} = row ?? {layout: null, sample: null};
			const variants = row ? await listVariants(reader, row.id) : [];
			return {id, name, layout, sample, variants: variants.map(variant => ({...variantSource(variant), layout}))};
		},
	};
}

function layoutKey(key: string): Pick<Layout, 'kind' | 'name'> {
	const [kind, name = ''] = key.split('/');
	return {kind: kind as Layout['kind'], name};
}

const usesOf = (layouts: readonly ListedLayout[]) => new Map(layouts.map(layout => [keyOf(layout), layout.uses]));

/** Compiles layouts and templates in a separate thread and returns the change that saves them. Writes nothing. */
export async function planChange(
	known: LayoutSnapshot,
	layouts: readonly Layout[],
	sources: readonly Source[] = [],
): Promise<PlanResult> {
	const {layouts: before, users} = known;
	const stored = new Map((await known.readLayouts(layouts.map(keyOf))).map(layout => [keyOf(layout), layout]));
	const changed = layouts.filter(layout => !isSame(layout, stored.get(keyOf(layout))));
	const newUses = layouts.map(layout => [keyOf(layout), partialsIn(Object.values(layout.files))] as const);
	const uses = new Map([...usesOf(before), ...newUses]);
	const problems = changed.flatMap(layout => formProblem(layout) ?? []);
	if (problems.length > 0) {
		return {ok: false, problems};
	}
	const keys = new Set(changed.map(keyOf));
	const affected = users.filter(
		user =>
			[...reachedFrom(user.uses, usesOf(before))].some(key => keys.has(key)) &&
			!sources.some(source => source.name === user.name),
	);
	const affectedSources: Source[] = [];
	for (const user of affected) {
		affectedSources.push(await known.readSource(user));
	}
	const read = withLayouts(known, layouts);
	const compiled = await compileTemplates([...sources, ...affectedSources], changed, {uses, read});
	if (compiled.problems.length > 0) {
		return {ok: false, problems: compiled.problems};
	}
	const change = {
		before,
		layouts: changed,
		templates: compiled.ready.slice(0, sources.length),
		users: affected.map((user, index) => ({
			...(compiled.ready[sources.length + index] as ReadyTemplate),
			id: user.id,
			after: user.version,
		})),
	};
	return {ok: true, change};
}

/** The partials that each layout or partial uses, and a function to read them. */
type Layouts = {
	readonly uses: ReadonlyMap<string, readonly string[]>;
	readonly read: LayoutSnapshot['readLayouts'];
};

/** Reads layouts from the store, except for the given ones, which take precedence. */
const withLayouts =
	({readLayouts: read}: LayoutSnapshot, layouts: readonly Layout[]): LayoutSnapshot['readLayouts'] =>
	async keys => {
		const given = layouts.filter(layout => keys.includes(keyOf(layout)));
		const rest = keys.filter(key => !given.some(layout => keyOf(layout) === key));
		return [...given, ...(await read(rest))];
	};

/** Compiles variants with the layouts and partials that they use. */
export async function compileWith(
	{layouts, readLayouts: read}: Pick<LayoutSnapshot, 'layouts' | 'readLayouts'>,
	sources: readonly VariantSource[],
): Promise<readonly CompileResult[]> {
	return (await compileIn(sources, [], {uses: usesOf(layouts), read})).results;
}

/** Compiles everything in one thread, because loading MJML takes most of the time. */
async function compileIn(
	sources: readonly VariantSource[],
	checked: readonly Layout[],
	{uses, read}: Layouts,
	timeoutMs = defaultCompileTime,
) {
	const usedDirectly = sources.flatMap(({layout, mjml, html, text}) =>
		layoutUses(layout || null, [mjml ?? html ?? '', text ?? '']),
	);
	const keys = reachedFrom([...checked.map(keyOf), ...usedDirectly], uses);
	return await compileAndCheck({sources, checked, layouts: await read([...keys])}, timeoutMs);
}

const isSame = ({files}: Layout, other: Layout | undefined): boolean =>
	JSON.stringify(Object.entries(files).sort()) === JSON.stringify(Object.entries(other?.files ?? {}).sort());

/** Returns the problem with the name or files of a layout or partial, or `null`. */
function formProblem(layout: Layout): string | null {
	const {name, files} = layout;
	if (!layoutName.test(name)) {
		return `${fileOf(layout, '')}: the name must have 1 to 64 letters, digits, hyphens and underscores`;
	}
	const [names, allowed] = [Object.keys(files), filesOf(layout)];
	const unexpected = names.find(file => !allowed.includes(file));
	if (unexpected !== undefined) {
		return `${fileOf(layout, unexpected)}: must be ${allowed.join(', ')}`;
	}
	if (!names.some(file => !file.endsWith('.txt'))) {
		return `${fileOf(layout, allowed[0] ?? '')}: is missing`;
	}
	const tooLong = names.find(file => Buffer.byteLength(files[file] ?? '') > maxSourceLength);
	return tooLong === undefined ? null : `${fileOf(layout, tooLong)}: is longer than ${maxSourceLength} octets`;
}

const withPosition = (file: string, {line, column, message}: Pick<Violation, 'line' | 'column' | 'message'>): string =>
	`${file}:${line}:${column}: ${message}`;

async function compileTemplates(sources: readonly Source[], changed: readonly Layout[], layouts: Layouts) {
	const all = sources.flatMap(({variants}) => variants);
	const {problems: layoutProblems, results} =
		all.length + changed.length === 0
			? {problems: [], results: []}
			: await compileIn(all, changed, layouts, defaultCompileTime + 500 * all.length);
	const invalid = changed.flatMap((layout, index) =>
		(layoutProblems[index] ?? []).map(({file = fileOf(layout, ''), ...problem}) => withPosition(file, problem)),
	);
	if (invalid.length > 0) {
		return {ready: [], problems: invalid};
	}
	const byVariant = new Map(all.map((variant, index) => [variant, results[index]]));
	const problems: string[] = [];
	const ready = sources.map(({id, name, variants, settings, sample, layout}): ReadyTemplate => {
		const stored = variants.flatMap(variant => {
			const result = byVariant.get(variant);
			if (result?.ok === false) {
				problems.push(...result.violations.map(violation => describe(name, variant, violation)));
			}
			return result?.ok ? [storedVariant(variant, result)] : [];
		});
		if (isTooLargeVersion(stored)) {
			const problem = `has more than ${maxVersionLength} characters in all languages, including compiled output`;
			problems.push(`${name}: ${problem}: shorten or remove a language`);
		}
		return {id, name, variants: stored, ...(settings && {settings}), sample, layout};
	});
	return {ready, problems: [...new Set(problems)]};
}

/** Returns a problem of a template, with its location, as people read it. */
function describe(template: string, {locale}: VariantSource, {field, file, ...problem}: Violation): string {
	const settings = path.join(template, 'template.json');
	if (file !== undefined) {
		return `${template}: ${withPosition(file, problem)}`;
	}
	if (field === 'layout') {
		return `${settings}: ${problem.message}`;
	}
	if (field === 'subject') {
		return `${settings}: subject${locale ? ` of ${locale}` : ''}, column ${problem.column}: ${problem.message}`;
	}
	const bodyFile = `body${locale ? `.${locale}` : ''}.${field === 'text' ? 'txt' : field}`;
	return withPosition(path.join(template, bodyFile), problem);
}

/**
 * Throws `LimitReached` if the new layouts and partials would exceed the limit. The result is exact only in the
 * transaction that saves them.
 */
export async function checkLayoutRoom(
	trx: Knex,
	tools: Pick<ActTools, 'clock'>,
	workspaceId: string,
	{before, layouts}: Pick<Change, 'before' | 'layouts'>,
): Promise<void> {
	const existing = new Set(before.map(keyOf));
	const added = layouts.filter(layout => !existing.has(keyOf(layout))).length;
	if (added > 0) {
		await checkRoom(trx, tools, workspaceId, 'layouts', added);
	}
}

/**
 * Saves a change. `changed` is `false` for templates whose newest version is already identical. Throws `Refused` if the
 * store has changed since the change was planned.
 */
export async function saveChange(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	{before, layouts, templates, users}: Change,
): Promise<Saved[]> {
	await checkLayoutRoom(trx, tools, workspaceId, {before, layouts});
	await lockUnchangedLayouts(trx, workspaceId, before);
	for (const layout of layouts) {
		const previous = before.find(listed => keyOf(listed) === keyOf(layout))?.updated_at;
		// Plans compare this time, so two changes within a millisecond must get different ones.
		const now = Math.max(tools.clock.now(), previous === undefined ? 0 : Date.parse(previous) + 1);
		await putLayout(trx, workspaceId, {...layout, updated_at: storeTime(now)});
		await recordAct(trx, tools, {action: 'layout.saved', workspaceId, target: keyOf(layout)});
	}
	const saved: Saved[] = [];
	for (const {settings, ...template} of templates) {
		const result = await saveTemplate(trx, tools, {workspaceId, ...template});
		const isSet = settings && (await saveSettings(trx, tools, {workspaceId, id: result.id, settings}));
		saved.push({...result, changed: result.changed || isSet === true});
	}
	for (const {name, after, ...user} of users) {
		const version = await addVersion(trx, tools, {workspaceId, after, ...user});
		if (typeof version !== 'object') {
			throw new Refused('conflict', {
				wrong: `the template ${name} was changed in the meantime`,
				next: 'try again',
				api: `The template ${name} was changed in the meantime. Try again.`,
			});
		}
		saved.push({id: user.id, name, version: version.version, changed: true});
	}
	return saved;
}

/** Returns the names of the templates, and the keys of the layouts and partials, whose newest version uses a layout. */
export function describeUsers(
	{layouts, users}: Pick<LayoutSnapshot, 'layouts' | 'users'>,
	layout: Pick<Layout, 'kind' | 'name'>,
): string[] {
	const key = keyOf(layout);
	const uses = usesOf(layouts);
	const reaches = (keys: readonly string[]) => reachedFrom(keys, uses).has(key);
	const usingLayouts = layouts.filter(candidate => keyOf(candidate) !== key && reaches(candidate.uses));
	return [...users.filter(user => reaches(user.uses)).map(({name}) => name), ...usingLayouts.map(keyOf)];
}
