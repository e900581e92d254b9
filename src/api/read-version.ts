import {storedVariant} from '../admin/variants.ts';
import type {Violation} from '../mail/api-error.ts';
import type {CompileResult, VariantSource} from '../render/compile.ts';
import type {TemplateVariant} from '../store/templates.ts';
import {canonicalLocale} from './schemas/formats.ts';
import type {VersionBody} from './schemas/template.ts';
import {mostViolations} from './validate.ts';

export type ReadVersion =
	| {readonly ok: true; readonly sources: readonly VariantSource[]}
	| {readonly ok: false; readonly violations: readonly Violation[]};

/** The variants of a body of the right shape; what a schema cannot say of them is judged here. */
export function readVersion({variants}: VersionBody): ReadVersion {
	const violations: Violation[] = [];
	const seen = new Set<string | null>();
	const sources = variants.map(({locale: tag = '', subject, mjml, html, text}, index): VariantSource => {
		const locale = tag === '' ? null : canonicalLocale(tag);
		if (seen.has(locale)) {
			const message = locale === null ? 'the default variant is there twice' : 'is there twice';
			violations.push({field: `variants[${index}].locale`, message});
		}
		seen.add(locale);
		if ((mjml === undefined) === (html === undefined)) {
			violations.push({field: `variants[${index}].mjml`, message: 'give either mjml or html'});
		}
		return {locale, subject, mjml: body(mjml), html: body(html), text: body(text)};
	});
	return violations.length > 0 ? {ok: false, violations: violations.slice(0, mostViolations)} : {ok: true, sources};
}

// As files are read: a byte order mark is no part of the text.
function body(text: string | undefined): string | undefined {
	return text?.replace(/^\ufeff+/, '');
}

export type ReadyVersion =
	| {readonly ok: true; readonly variants: readonly TemplateVariant[]}
	| {readonly ok: false; readonly violations: readonly Violation[]};

const longestMessage = 500;

/** What the compiler made of the sources, or each of its faults with the field that it is in, its line and its column. */
export function readyVersion(sources: readonly VariantSource[], results: readonly CompileResult[]): ReadyVersion {
	const variants: TemplateVariant[] = [];
	const violations: Violation[] = [];
	for (const [index, source] of sources.entries()) {
		const result = results[index];
		if (result?.ok) {
			variants.push(storedVariant(source, result));
		}
		for (const {field, message, line, column} of result?.ok === false ? result.violations : []) {
			const placed = `line ${line}, column ${column}: ${message}`.slice(0, longestMessage);
			violations.push({field: `variants[${index}].${field}`, message: placed});
		}
	}
	return violations.length > 0 ? {ok: false, violations: violations.slice(0, mostViolations)} : {ok: true, variants};
}
