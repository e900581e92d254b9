import {mostElements} from './limits.ts';

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
export function mjmlFaults(text: string): MjmlFault[] {
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
