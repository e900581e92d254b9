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
import {compileWith, type LayoutSnapshot, readSnapshot} from './layouts.ts';
import type {TemplateVariant} from './store.ts';
import {versionNumber} from './template-page.ts';
import {previewVariant, storedVariant} from './versions.ts';

/** The content of the editor form: one language of the next version. */
export type Draft = {
	/** The version that it is based on, or `null` if the template had none. */
	readonly begun: number | null;
	/** As typed, empty for the default variant. */
	readonly locale: string;
	/** Whether the language is not in that version. */
	readonly added: boolean;
	readonly subject: string;
	readonly kind: TemplateVariant['kind'];
	readonly source: string;
	/** Empty if it is derived from the HTML. */
	readonly text: string;
	/** The name of the version's layout, or empty. */
	readonly layout: string;
	/** A JSON object, or empty. */
	readonly sample: string;
};

/** The initial draft of a template without a version, which shows how the editor works. */
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
	// Forms end lines with CRLF, but sources end them with LF, as files do.
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
	/** As the author wrote it, or `null`. */
	readonly sample: string | null;
	readonly data: Readonly<Record<string, unknown>>;
};

/** Returns the source in a draft, or all problems with its fields. */
function readSource(draft: Draft): ReadDraft | readonly string[] {
	const {locale: tag, added, subject, kind, source, text, layout, sample} = draft;
	const problems: string[] = [];
	const locale = tag === '' ? null : validLocale(tag);
	if ((tag !== '' && locale === null) || (added && tag === '')) {
		problems.push('Language: must be a tag such as de or pt-BR.');
	}
	if (source.trim() === '') {
		problems.push('Source: must not be empty.');
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

/** Returns the object, or the problem with its text as a clause. */
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
	/** The problems that prevent saving. */
	readonly errors: readonly string[];
	/** The problems that may be intentional. The draft can be saved once the user has seen them. */
	readonly warnings: readonly string[];
	/** `null` if the draft cannot be saved. */
	readonly variant: TemplateVariant | null;
	readonly sample: string | null;
	/** The layouts and templates of the workspace when it was checked. */
	readonly known: LayoutSnapshot;
	/** The message with the sample's variables, or `null` if it cannot be rendered. */
	readonly mail: {readonly subject: string; readonly html: string; readonly text: string} | null;
};

/** Gmail clips the HTML of a message at this size and hides the rest behind a link. */
export const gmailOctets = 102 * 1024;
const maxListed = 10;
/** A preview and its checks are requested at the same time, and the same draft is often saved a moment later. */
const maxRetained = 8;

/** Compiles a draft and renders it with its sample, each in its own thread, because templates are untrusted code. */
export function createChecks(reader: Knex) {
	const compileTurns = createTurns();
	const renderTurns = createTurns();
	const cache = new LRUCache<string, Promise<Checked>>({max: maxRetained});

	async function check(workspace: Workspace, draft: Draft, known: LayoutSnapshot): Promise<Checked> {
		const read = readSource(draft);
		const failed = {warnings: [], variant: null, sample: null, mail: null, known};
		if (!('source' in read)) {
			return {...failed, errors: read};
		}
		const [compiled] = await compileTurns(workspace.id, () => compileWith(known, [read.source]));
		if (!compiled?.ok) {
			const errors = (compiled?.violations ?? []).map(violation => describe(violation, draft));
			return {...failed, errors};
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
			errors: [],
			warnings: [
				...(missing.length > 0 ? [`Not in the sample: ${listText(missing)}.`] : []),
				...(rendered.ok
					? findWarnings(rendered)
					: [`Rendering with this sample fails at ${rendered.message}.`]),
			],
			variant,
			sample: read.sample,
			known,
			mail: rendered.ok ? rendered : null,
		};
	}

	return async (workspace: Workspace, draft: Draft): Promise<Checked> => {
		const known = await readSnapshot(reader, workspace.id);
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
		const checked = cache.get(key) ?? check(workspace, draft, known);
		cache.set(key, checked);
		const forget = () => cache.delete(key);
		// On a busy machine a compile may time out, but succeed the next time.
		checked.then(({mail}) => mail ?? forget(), forget);
		return await checked;
	};
}

const titles: Readonly<Record<string, string>> = {subject: 'Subject', mjml: 'MJML', html: 'HTML', text: 'Text'};
const maxQuoteLength = 100;

const shorten = (text: string): string => (text.length > maxQuoteLength ? `${text.slice(0, maxQuoteLength)}…` : text);

/** Describes a violation and quotes its line, because the editor has no line numbers. */
function describe({field, file, message, line, column}: Violation, {subject, source, text}: Draft): string {
	if (file !== undefined || field === 'layout') {
		return file === undefined ? `Layout: ${message}.` : `${file}, line ${line}, column ${column}: ${message}.`;
	}
	const fieldText = field === 'subject' ? subject : field === 'text' ? text : source;
	const quoted = shorten((fieldText.split('\n')[line - 1] ?? '').trim());
	const title = titles[field] ?? field;
	return `${title}, line ${line}, column ${column}: ${message}${quoted === '' ? '.' : `, in: ${quoted}`}`;
}

/** Returns what would look wrong to a recipient. */
function findWarnings({subject, html}: {readonly subject: string; readonly html: string}): string[] {
	const links = extractLinks(html).filter(link => !isUrl(link));
	const octets = Buffer.byteLength(html);
	return [
		...(subject === '' ? ['The subject is empty.'] : []),
		...(links.length > 0
			? [`Invalid links: ${listText(links.map(link => (link === '' ? '(empty)' : link)))}.`]
			: []),
		...cidWarnings(html, []).map(warning => `${warning}.`),
		...(octets > gmailOctets
			? [`The HTML is ${kilobytes(octets)}. Gmail clips messages at ${kilobytes(gmailOctets)}.`]
			: []),
	];
}

const schemes = new Set(['http:', 'https:', 'mailto:', 'tel:', 'sms:']);

/** Whether a link works in a message, where it must be absolute. */
function isUrl(link: string): boolean {
	return URL.canParse(link) && schemes.has(new URL(link).protocol);
}

function listText(items: readonly string[]): string {
	const listed = items.slice(0, maxListed).map(shorten).join(', ');
	return items.length > maxListed ? `${listed} and ${items.length - maxListed} more` : listed;
}

export const kilobytes = (octets: number): string => `${(octets / 1024).toFixed(octets < 10_240 ? 1 : 0)} KB`;

/** Identifies a list of warnings, so that a form can report that the user has seen them. */
export function warningsDigest(warnings: readonly string[]): string {
	return createHash('sha256').update(JSON.stringify(warnings)).digest('base64url').slice(0, 16);
}
