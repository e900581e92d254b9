import type {Liquid} from 'liquidjs';
import {mostElements} from './limits.ts';
import type {Violation} from './liquid-source.ts';
import {faultOf, liquidFault, type Shielded, shield, violationAt} from './liquid-source.ts';

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

/** MJML does not parse colours, so a brand's colour may come from the data; it has to calculate with widths. */
function isLiquidColour({message}: MjmlError, {pattern}: Shielded): boolean {
	return message.includes('for type Color') && message.search(pattern) !== -1;
}

/** MJML gives only the line: the element's tag on it is the place. */
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

/** Each would show a third party who reads the mail, and when. */
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

/**
 * MJML sets the direction of each section and column, to left-to-right by default, regardless of the mail's direction.
 */
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

type MjmlFault = {
	readonly offset: number;
	readonly message: string;
	/** The source must not be compiled to look for more. */
	readonly fatal?: true;
};

/** The elements that take text or html; in all others MJML drops it without a word. */
export const textElements: ReadonlySet<string> = new Set([
	'mj-accordion-text',
	'mj-accordion-title',
	'mj-breakpoint',
	'mj-button',
	'mj-carousel-image',
	'mj-html-attribute',
	'mj-navbar-link',
	'mj-preview',
	'mj-raw',
	'mj-social-element',
	'mj-style',
	'mj-table',
	'mj-text',
	'mj-title',
]);

/**
 * Finds what MJML's forgiving parser would pass over in silence: elements left open or closed twice, text and Liquid
 * between elements (which it drops), `mj-include`, and more elements than a mail has. One linear pass.
 *
 * @param text the source with its Liquid shielded
 */
function mjmlFaults(text: string): MjmlFault[] {
	const faults: MjmlFault[] = [];
	const open: Array<{name: string; offset: number}> = [];
	let elements = 0;
	let at = 0;

	while (at < text.length) {
		const next = nextMarkup(text, at);
		checkText(at, next);
		if (next >= text.length) {
			break;
		}

		const end = markupEnd(text, next);
		if (end === -1) {
			faults.push({offset: next, message: 'this is never closed', fatal: true});
			return faults;
		}
		checkTag(next, text.slice(next, end));
		if (elements > mostElements) {
			faults.push({offset: next, message: `has more than ${mostElements} MJML elements`, fatal: true});
			return faults;
		}
		at = end;
	}

	faults.push(...open.map(({name, offset}) => ({offset, message: `<${name}> is never closed`})));
	return faults;

	function checkText(from: number, to: number): void {
		const parent = open.at(-1)?.name;
		const start = from + text.slice(from, to).search(/\S/);
		if (start >= from && !(parent && textElements.has(parent))) {
			faults.push({
				offset: start,
				message: `text${parent ? ` directly in <${parent}>` : ' outside of <mjml>'} would be lost: put it into an <mj-text>, or Liquid tags between elements into <mj-raw>`,
			});
		}
	}

	function checkTag(offset: number, tag: string): void {
		const [, slash, name = ''] = /^<(\/?)(mj[a-z-]*)(?=[\s/>])/i.exec(tag) ?? [];
		const element = name.toLowerCase();
		if (element === '') {
			return;
		}
		if (element === 'mj-include') {
			faults.push({offset, message: 'mj-include is refused: templates read no files'});
			return;
		}
		if (slash === '/') {
			close(offset, element);
			return;
		}

		elements++;
		if (!tag.endsWith('/>')) {
			open.push({name: element, offset});
		}
	}

	function close(offset: number, element: string): void {
		const index = open.findLastIndex(({name}) => name === element);
		if (index === -1) {
			faults.push({offset, message: `</${element}> closes nothing`});
			return;
		}
		for (const left of open.splice(index).slice(1)) {
			faults.push({offset: left.offset, message: `<${left.name}> is never closed`});
		}
	}
}

/** Where the next tag, comment or CDATA section begins; the text's length where none does. */
function nextMarkup(text: string, from: number): number {
	const found = text.slice(from).search(/<[/a-z!?]/i);
	return found === -1 ? text.length : from + found;
}

/** Where it ends, or -1. A `>` inside quotes ends no tag. */
function markupEnd(text: string, from: number): number {
	for (const [begin, end] of [
		['<!--', '-->'],
		['<![CDATA[', ']]>'],
	] as const) {
		if (text.startsWith(begin, from)) {
			const found = text.indexOf(end, from + begin.length);
			return found === -1 ? -1 : found + end.length;
		}
	}

	if (!/^<\/?mj/i.test(text.slice(from, from + 4))) {
		const found = text.indexOf('>', from);
		return found === -1 ? text.length : found + 1;
	}
	for (let at = from; at < text.length; at++) {
		const character = text[at];
		if (character === '>') {
			return at + 1;
		}
		if (character === '"' || character === "'") {
			at = text.indexOf(character, at + 1);
			if (at === -1) {
				return -1;
			}
		}
	}
	return -1;
}
