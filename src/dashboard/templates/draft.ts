import {variablesFault} from '../../api/schemas/send.ts';
import {isObject, type JsonObject, parseExact} from '../../kit/exact-json.ts';
import type {VariantSource} from '../../render/compile.ts';
import {longestSource} from '../../render/limits.ts';
import {validLocale} from '../../render/locale.ts';
import type {TemplateVariant} from '../../store/templates.ts';
import {versionNumber} from './chosen.ts';

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
	/** JSON of an object; empty: none. */
	readonly sample: string;
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
		sample: text('sample'),
	};
}

type ReadDraft =
	| {
			readonly ok: true;
			readonly source: VariantSource;
			/** As the author wrote it; null: none. */
			readonly sample: string | null;
			readonly data: Readonly<Record<string, unknown>>;
	  }
	| {readonly ok: false; readonly problems: readonly string[]};

/** What a draft says, or what is wrong with its form. */
export function checkDraft({locale: tag, added, subject, kind, source, text, sample}: Draft): ReadDraft {
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
		return {ok: false, problems};
	}
	return {
		ok: true,
		source: {locale, subject, [kind]: source, ...(text.trim() !== '' && {text})},
		sample: sample.trim() === '' ? null : sample,
		data,
	};
}

/** The object, or what is wrong with its text (a clause). */
function readSample(text: string): JsonObject | string {
	if (text.length > longestSource) {
		return `is longer than ${longestSource} characters`;
	}
	try {
		const value = parseExact(text);
		return isObject(value) ? (variablesFault(value) ?? value) : 'must be a JSON object';
	} catch (error) {
		return `is not JSON: ${(error as Error).message}`;
	}
}
