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
		const made = await mjml2html(withDirection(shielded.text), {
			validationLevel: 'soft',
			ignoreIncludes: true,
			filePath: '.',
			// MJML's own list would have each reader's mail program load fonts such as Roboto from a third party.
			fonts: {},
		});
		html = made.html.replace(whitePreview, hiddenPreview);
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
		violations.push(...lostTags(source, shielded, html), ...borrowedPictures(source, shielded, html));
	}
	return violations.length === 0
		? {ok: true, html: withLanguage(shielded.restore(keepDirection(html, shielded.text)))}
		: {ok: false, violations: violations.sort((a, b) => a.line - b.line || a.column - b.column)};
}

/** MJML writes the preview line, which is hidden, in white: filters count that as text that is to be hidden from people. */
const whitePreview = '<div style="display:none;font-size:1px;color:#ffffff;line-height:1px;';
const hiddenPreview = whitePreview.replace('color:#ffffff;', '');

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

/** The pictures that MJML takes from servers of others where the attribute is not set. */
const pictures = [
	{element: 'mj-social-element', attribute: 'src', url: 'https://www.mailjet.com/images/theme/v1/icons/ico-social/'},
	{element: 'mj-accordion', attribute: 'icon-wrapped-url', url: 'https://i.imgur.com/bIXv1bk.png'},
	{element: 'mj-accordion', attribute: 'icon-unwrapped-url', url: 'https://i.imgur.com/w4uTygT.png'},
	{element: 'mj-carousel', attribute: 'left-icon', url: 'https://i.imgur.com/xTh3hln.png'},
	{element: 'mj-carousel', attribute: 'right-icon', url: 'https://i.imgur.com/os7o9kz.png'},
];

/** Each would tell a stranger who reads the mail, and when. */
function borrowedPictures(source: string, shielded: Shielded, html: string): Violation[] {
	const {text} = shielded;
	return pictures
		.filter(({url}) => html.includes(url) && !text.includes(url))
		.flatMap(({element, attribute, url}) => {
			const isSet = new RegExp(`\\s${attribute}\\s*=\\s*(?:"[^"]|'[^'])`, 'i');
			const tags = [...text.matchAll(new RegExp(`<${element}(?=[\\s/>])(?:"[^"]*"|'[^']*'|[^>"'])*`, 'gi'))];
			const without = tags.filter(([tag]) => !isSet.test(tag));
			const message = `${element} loads a picture from ${new URL(url).host}: set its ${attribute} to a picture of your own`;
			return without.map(({index}) => violationAt('mjml', source, shielded, index, message));
		});
}

/** MJML sets the direction of each section and column, from left to right if they do not say it, whatever the whole mail says. */
function withDirection(text: string): string {
	if (directionOf(text) !== 'rtl') {
		return text;
	}
	const elements = ['mj-wrapper', 'mj-section', 'mj-group', 'mj-column'];
	const defaults = `<mj-attributes>${elements.map(name => `<${name} direction="rtl" />`).join('')}</mj-attributes>`;
	// In the line of a tag, so that faults keep their lines.
	const head = /<mj-head(?:\s[^>]*)?(?<!\/)>/i;
	return head.test(text)
		? text.replace(head, tag => tag + defaults)
		: text.replace(/<mjml(?:\s[^>]*)?>/i, tag => `${tag}<mj-head>${defaults}</mj-head>`);
}

/** A direction that is known only later, `auto` or Liquid, is inherited unless a section or column says its own. */
function keepDirection(html: string, text: string): string {
	const direction = directionOf(text);
	const isOpen = direction !== null && direction !== 'ltr' && direction !== 'rtl';
	return isOpen && !/\sdirection\s*=/i.test(text) ? html.replace(/direction:ltr;?/g, '') : html;
}

function directionOf(text: string): string | null {
	return /<mjml\s(?:[^>]*\s)?dir\s*=\s*["']([^"']*)["']/i.exec(text)?.[1]?.trim().toLowerCase() ?? null;
}

/** Where the source names no language MJML calls it undetermined. */
function withLanguage(html: string): string {
	return html.replaceAll(' lang="und" dir="', ' lang="{{ message.locale }}" dir="');
}
