import {createHash} from 'node:crypto';
import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {extractLinks} from '../../compose/links/rewrite.ts';
import {missingPaths, type VariantSource} from '../../compose/render/compile.ts';
import {renderInWorker} from '../../compose/render/in-worker.ts';
import {maxSourceLength} from '../../compose/render/limits.ts';
import type {Violation} from '../../compose/render/liquid-source.ts';
import {validLocale} from '../../compose/render/locale.ts';
import {isObject, type JsonObject, parseExact} from '../../kit/exact-json.ts';
import {createTurns} from '../../kit/turns.ts';
import {cidWarnings} from '../../mail/content-id.ts';
import {variablesProblem} from '../../send/schema.ts';
import type {Workspace} from '../workspaces/store.ts';
import {compileWith, type Known, readKnown} from './layouts.ts';
import type {TemplateVariant} from './store.ts';
import {versionNumber} from './template-page.ts';
import {previewVariant, storedVariant} from './versions.ts';

/** What the form of an editor says: one language of the next version. */
export type Draft = {
	/** The version that it was made from; null: there was none. */
	readonly begun: number | null;
	/** As typed, empty for the default variant. */
	readonly locale: string;
	/** The language is not in that version. */
	readonly added: boolean;
	readonly subject: string;
	readonly kind: TemplateVariant['kind'];
	readonly source: string;
	/** Empty: made from the html. */
	readonly text: string;
	/** The name of the version's layout; empty: none. */
	readonly layout: string;
	/** JSON of an object; empty: none. */
	readonly sample: string;
};

/** What the editor of a template without a version begins with: enough to see how it works. */
export const firstDraft: Draft = {
	begun: null,
	locale: '',
	added: false,
	subject: 'Your order {{ order.number }}',
	kind: 'mjml',
	source: `<mjml>
  <mj-body>
    <mj-section>
      <mj-column>
        <mj-text>Hello {{ name }},</mj-text>
        <mj-text>Thank you for your order {{ order.number }}.</mj-text>
        <mj-button href="{{ order.url }}">See your order</mj-button>
      </mj-column>
    </mj-section>
  </mj-body>
</mjml>
`,
	text: '',
	layout: '',
	sample: `{
  "name": "Zoë",
  "order": {"number": "1042", "url": "https://shop.example/orders/1042"}
}
`,
};

export function readDraft(form: URLSearchParams): Draft {
	// Forms end lines with CRLF; sources have LF, as files have.
	const text = (name: string) => (form.get(name) ?? '').replaceAll('\r\n', '\n');
	return {
		begun: versionNumber(text('begun')),
		locale: text('locale').trim(),
		added: form.get('added') === '1',
		subject: text('subject'),
		kind: text('kind') === 'html' ? 'html' : 'mjml',
		source: text('source'),
		text: text('text'),
		layout: text('layout'),
		sample: text('sample'),
	};
}

type ReadDraft = {
	readonly source: VariantSource;
	/** As the author wrote it; null: none. */
	readonly sample: string | null;
	readonly data: Readonly<Record<string, unknown>>;
};

/** What a draft says, or all that is wrong with its form. */
function sourceOf(draft: Draft): ReadDraft | readonly string[] {
	const {locale: tag, added, subject, kind, source, text, layout, sample} = draft;
	const problems: string[] = [];
	const locale = tag === '' ? null : validLocale(tag);
	if ((tag !== '' && locale === null) || (added && tag === '')) {
		problems.push('Language: must be a tag such as de or pt-BR.');
	}
	if (source.trim() === '') {
		problems.push('Source: is empty.');
	}
	const data = sample.trim() === '' ? {} : readSample(sample);
	if (typeof data === 'string') {
		problems.push(`Sample: ${data}.`);
	}
	if (problems.length > 0 || typeof data === 'string') {
		return problems;
	}
	return {
		source: {locale, subject, [kind]: source, ...(text.trim() !== '' && {text}), layout: layout || null},
		sample: sample.trim() === '' ? null : sample,
		data,
	};
}

/** The object, or what is wrong with its text (a clause). */
function readSample(text: string): JsonObject | string {
	if (text.length > maxSourceLength) {
		return `is longer than ${maxSourceLength} characters`;
	}
	try {
		const value = parseExact(text);
		return isObject(value) ? (variablesProblem(value) ?? value) : 'must be a JSON object';
	} catch (error) {
		return `is not JSON: ${(error as Error).message}`;
	}
}

export type Checked = {
	/** What keeps it from being saved. */
	readonly faults: readonly string[];
	/** What may be meant so: saved once they were seen. */
	readonly doubts: readonly string[];
	/** Null: a fault. */
	readonly variant: TemplateVariant | null;
	readonly sample: string | null;
	/** What the workspace had. */
	readonly known: Known;
	/** With the sample's variables; null: it cannot be rendered. */
	readonly mail: {readonly subject: string; readonly html: string; readonly text: string} | null;
};

/** Gmail shows no more of a mail's html, and hides the rest behind a link. */
export const gmailOctets = 102 * 1024;
const maxNamed = 10;
/** A preview and its checks are asked for at once, and the same is saved a moment later. */
const maxRetained = 8;

/** Compiles a draft and renders it with its sample, each in a thread of its own: templates are foreign code. */
export function createChecks(reader: Knex) {
	const compileTurns = createTurns();
	const renderTurns = createTurns();
	const kept = new LRUCache<string, Promise<Checked>>({max: maxRetained});

	async function check(workspace: Workspace, draft: Draft, known: Known): Promise<Checked> {
		const read = sourceOf(draft);
		const none = {doubts: [], variant: null, sample: null, mail: null, known};
		if (!('source' in read)) {
			return {...none, faults: read};
		}
		const [compiled] = await compileTurns(workspace.id, () => compileWith(known, [read.source]));
		if (!compiled?.ok) {
			const faults = (compiled?.violations ?? []).map(one => placed(one, draft));
			return {...none, faults};
		}
		const variant = storedVariant(read.source, compiled);
		const rendered = await previewVariant({id: 'draft', sample: null}, variant, {
			workspace,
			data: read.sample,
			locale: variant.locale,
			timezone: null,
			render: job => renderTurns(workspace.id, () => renderInWorker(job)),
		});
		const missing = missingPaths(compiled.reads, read.data);
		return {
			faults: [],
			doubts: [
				...(missing.length > 0 ? [`Not in the sample: ${named(missing)}.`] : []),
				...(rendered.ok ? findDoubts(rendered) : [`With this sample it fails at ${rendered.message}.`]),
			],
			variant,
			sample: read.sample,
			known,
			mail: rendered.ok ? rendered : null,
		};
	}

	return async (workspace: Workspace, draft: Draft): Promise<Checked> => {
		const known = await readKnown(reader, workspace.id);
		const key = createHash('sha256')
			.update(
				JSON.stringify([
					known.layouts,
					workspace.id,
					workspace.name,
					workspace.locale,
					workspace.timezone,
					draft,
				]),
			)
			.digest('hex');
		const checked = kept.get(key) ?? check(workspace, draft, known);
		kept.set(key, checked);
		const forget = () => kept.delete(key);
		// A busy machine can make a fault of a compile that took too long: the next time it may not.
		checked.then(({mail}) => mail ?? forget(), forget);
		return await checked;
	};
}

const titles: Readonly<Record<string, string>> = {subject: 'Subject', mjml: 'MJML', html: 'HTML', text: 'Text'};
const maxLineLength = 100;

/** A fault with the line that it is in: an editor without line numbers finds it by its text. */
function placed({field, file, message, line, column}: Violation, {subject, source, text}: Draft): string {
	if (file !== undefined || field === 'layout') {
		return file === undefined ? `Layout: ${message}.` : `${file}, line ${line}, column ${column}: ${message}.`;
	}
	const written = field === 'subject' ? subject : field === 'text' ? text : source;
	const there = (written.split('\n')[line - 1] ?? '').trim();
	const shown = there.length > maxLineLength ? `${there.slice(0, maxLineLength)}…` : there;
	return `${titles[field] ?? field}, line ${line}, column ${column}: ${message}${shown === '' ? '.' : `, in: ${shown}`}`;
}

/** What a reader of the mail would stumble over. */
function findDoubts({subject, html}: {readonly subject: string; readonly html: string}): string[] {
	const links = extractLinks(html).filter(link => !isUrl(link));
	const octets = Buffer.byteLength(html);
	return [
		...(subject === '' ? ['The subject is empty.'] : []),
		...(links.length > 0
			? [`Links that are no URL: ${named(links.map(link => (link === '' ? '(empty)' : link)))}.`]
			: []),
		...cidWarnings(html, []).map(warning => `${warning}.`),
		...(octets > gmailOctets
			? [`The html has ${kilobytes(octets)}: Gmail cuts it at ${kilobytes(gmailOctets)}.`]
			: []),
	];
}

const schemes = new Set(['http:', 'https:', 'mailto:', 'tel:', 'sms:']);

/** Whether a mail's link can lead anywhere: a mail has no page that it would be relative to. */
function isUrl(link: string): boolean {
	return URL.canParse(link) && schemes.has(new URL(link).protocol);
}

function named(all: readonly string[]): string {
	const shown = all.slice(0, maxNamed).map(one => (one.length > 100 ? `${one.slice(0, 100)}…` : one));
	return shown.join(', ') + (all.length > maxNamed ? ` and ${all.length - maxNamed} more` : '');
}

export const kilobytes = (octets: number): string => `${(octets / 1024).toFixed(octets < 10_240 ? 1 : 0)} KB`;

/** Names a set of doubts, so that a form can say that they were seen. */
export function doubtsSeen(doubts: readonly string[]): string {
	return createHash('sha256').update(JSON.stringify(doubts)).digest('base64url').slice(0, 16);
}
