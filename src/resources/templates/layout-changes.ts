import path from 'node:path';
import type {Knex} from 'knex';
import {maxDiffLines, unifiedDiff} from '../../kit/diff.ts';
import type {Change} from './layouts.ts';
import {findTemplate, findVersion, listVariants, type TemplateSettings, type TemplateVariant} from './store.ts';
import {isContent, type Saved} from './versions.ts';

/** The effect of a change on one template. */
export type TemplateEffect = Omit<Saved, 'id'> & {
	readonly id: string | null;
	/** The variants of the newest version, and those of the next one. */
	readonly variants: readonly [before: readonly TemplateVariant[], after: readonly TemplateVariant[]];
};

/** Yields the effect of a change on each template, one at a time, because all sources together may exceed memory. */
export async function* previewEffects(
	reader: Knex,
	workspaceId: string,
	{templates, users}: Pick<Change, 'templates' | 'users'>,
): AsyncGenerator<TemplateEffect> {
	for (const {id, name, settings, ...content} of [...templates, ...users]) {
		const template = await findTemplate(reader, workspaceId, {name});
		const latest = template?.latest_version ?? 0;
		const newest = template && latest > 0 ? await findVersion(reader, template.row_id, latest) : undefined;
		const hasNewContent = !(newest && isContent(newest, content));
		const before = hasNewContent && newest ? await listVariants(reader, newest.id) : [];
		const hasNewSettings = settings !== undefined && settingsText(template) !== settingsText(settings);
		const variants = [before, hasNewContent ? content.variants : []] as const;
		const version = hasNewContent ? latest + 1 : latest;
		yield {id: template?.id ?? id, name, version, changed: hasNewContent || hasNewSettings, variants};
	}
}

const settingsText = ({topic = null, priority = null, sensitive = []}: Partial<TemplateSettings> = {}): string =>
	JSON.stringify([topic, priority, sensitive]);

/** The maximum length of all diffs together, in characters. */
const maxLength = 1024 * 1024;

/** Runs work that takes tens of milliseconds. The API and the dashboard interleave it with other requests. */
type Slice = <Result>(work: () => Result) => Promise<Result>;

/** Writes a diff for each template of a change, up to a total length. */
export class Diffs {
	readonly #slice: Slice;
	#remaining = maxLength;

	constructor(slice: Slice = async work => work()) {
		this.#slice = slice;
	}

	/**
	 * Returns a unified diff of the sources, with layouts and partials resolved, one language at a time. It is empty if
	 * nothing differs, and a sentence instead of a diff if it would be too long.
	 */
	async write({name, version, variants: [before, after]}: TemplateEffect): Promise<string> {
		const [oldFiles, newFiles] = [filesOf(name, before), filesOf(name, after)];
		const parts: string[] = [];
		let lines = 0;
		for (const file of new Set([...oldFiles.keys(), ...newFiles.keys()])) {
			const [from, to] = [oldFiles.get(file), newFiles.get(file)];
			const titles = [version - 1, version].map(number => `${file} (version ${number})`) as [string, string];
			const names: [string, string] = from === undefined ? ['/dev/null', titles[1]] : titles;
			const part = this.#remaining > 0 ? await this.#slice(() => unifiedDiff(names, from ?? '', to ?? '')) : null;
			lines += part === null ? maxDiffLines + 1 : part.split('\n').length;
			this.#remaining -= part?.length ?? 0;
			if (part === null || lines > maxDiffLines || this.#remaining < 0) {
				return `The diff of ${name} is not shown: it has more than ${maxDiffLines} lines, or all diffs have more than 1 MiB.\n`;
			}
			parts.push(part);
		}
		return parts.join('');
	}
}

/** Returns the sources by file name. */
const filesOf = (name: string, variants: readonly TemplateVariant[]): ReadonlyMap<string, string> =>
	new Map(
		variants.flatMap(({locale, kind, source, text_source: text}) => {
			const base = path.join(name, locale === null ? 'body' : `body.${locale}`);
			return [[`${base}.${kind}`, source] as const, ...(text === null ? [] : [[`${base}.txt`, text] as const])];
		}),
	);
