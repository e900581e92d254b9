import type {Liquid} from 'liquidjs';
import {liquidFault, type Shielded, shield, violationAt} from './liquid-source.ts';
import {mjmlFaults} from './mjml-source.ts';
import type {Violation} from './violation.ts';

export type MjmlResult =
	| {readonly ok: true; readonly html: string}
	| {readonly ok: false; readonly violations: readonly Violation[]};

type MjmlError = {readonly line: number; readonly message: string; readonly tagName: string};

/**
 * Compiles MJML that contains Liquid to html that contains the same Liquid. Violations point at the MJML.
 * MJML sees words in the Liquid's place, so quotes, `<` and `>` in it break nothing.
 */
export async function compileMjml(engine: Liquid, source: string): Promise<MjmlResult> {
	const fault = liquidFault(engine, 'mjml', source);
	if (fault) {
		return {ok: false, violations: [fault]};
	}

	const shielded = shield(engine, source);
	const structural = mjmlFaults(shielded.text);
	if (structural.length > 0) {
		return {
			ok: false,
			violations: structural.map(({offset, message}) => violationAt('mjml', source, shielded, offset, message)),
		};
	}

	// Loading MJML takes a third of a second and much memory, so only those who compile pay for it.
	const {default: mjml2html} = await import('mjml');
	let html: string;
	let errors: readonly MjmlError[];
	try {
		({html, errors} = await mjml2html(shielded.text, {validationLevel: 'soft', ignoreIncludes: true, filePath: '.'}));
	} catch (error) {
		const message = error instanceof RangeError ? 'nests too deeply' : String((error as Error).message ?? error);
		return {ok: false, violations: [violationAt('mjml', source, shielded, 0, message)]};
	}

	const violations = [
		...errors
			.filter(error => !isLiquidColour(error, shielded))
			.map(error => violationAt('mjml', source, shielded, offsetOf(shielded.text, error), error.message.trim())),
		...lostTags(source, shielded, html),
	];
	return violations.length > 0 ? {ok: false, violations} : {ok: true, html: shielded.restore(html)};
}

/** MJML copies colours as they are, so a brand's colour may come from the data; widths it must reckon with. */
function isLiquidColour({message}: MjmlError, {pattern}: Shielded): boolean {
	return message.includes('for type Color') && message.search(pattern) !== -1;
}

/** MJML tells the line alone: the element's tag on it is the place. */
function offsetOf(text: string, {line, tagName}: MjmlError): number {
	const lines = text.split('\n');
	const start = lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0);
	return start + Math.max(0, lines[line - 1]?.search(new RegExp(`<${tagName}\\b`, 'i')) ?? 0);
}

/** Tags that MJML left out, such as those in an attribute that it does not write: the html would lose an `{% endif %}`. */
function lostTags(source: string, shielded: Shielded, html: string): Violation[] {
	const kept = new Set([...html.matchAll(shielded.pattern)].map(([, index]) => Number(index)));
	const word = [...shielded.text.matchAll(shielded.pattern)];
	return shielded.tokens.flatMap(({kind}, index) =>
		kind === 'output' || kept.has(index)
			? []
			: [
					violationAt(
						'mjml',
						source,
						shielded,
						word[index]?.index ?? 0,
						`MJML leaves this out: ${word[index]?.[0] ?? ''}`,
					),
				],
	);
}
