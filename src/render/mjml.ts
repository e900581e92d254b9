import type {Liquid} from 'liquidjs';
import {faultOf, liquidFault, type Shielded, shield, violationAt} from './liquid-source.ts';
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
	const faults = mjmlFaults(shielded.text);
	const violations = faults.map(({offset, message}) => violationAt('mjml', source, shielded, offset, message));
	if (faults.some(({fatal}) => fatal)) {
		return {ok: false, violations};
	}

	// Loading MJML takes a third of a second and much memory, so only those who compile pay for it.
	const {default: mjml2html} = await import('mjml');
	let html = '';
	try {
		const made = await mjml2html(shielded.text, {
			validationLevel: 'soft',
			ignoreIncludes: true,
			filePath: '.',
			// MJML's own list would have each reader's mail program load fonts such as Roboto from a third party.
			fonts: {},
		});
		html = made.html;
		const errors: readonly MjmlError[] = made.errors;
		violations.push(
			...errors
				.filter(error => !isLiquidColour(error, shielded))
				.map(error => violationAt('mjml', source, shielded, offsetOf(shielded.text, error), error.message.trim())),
		);
	} catch (error) {
		violations.push(violationAt('mjml', source, shielded, 0, faultOf(error).message));
	}

	if (violations.length === 0) {
		violations.push(...lostTags(source, shielded, html));
	}
	return violations.length === 0
		? {ok: true, html: shielded.restore(html)}
		: {ok: false, violations: violations.sort((a, b) => a.line - b.line || a.column - b.column)};
}

/** MJML copies colours as they are, so a brand's colour may come from the data; widths it must reckon with. */
function isLiquidColour({message}: MjmlError, {pattern}: Shielded): boolean {
	return message.includes('for type Color') && message.search(pattern) !== -1;
}

/** MJML tells the line alone: the element's tag on it is the place. */
function offsetOf(text: string, {line, tagName}: MjmlError): number {
	const lines = text.split('\n');
	const start = lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0);
	return start + Math.max(0, lines[line - 1]?.toLowerCase().indexOf(`<${tagName}`) ?? 0);
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
