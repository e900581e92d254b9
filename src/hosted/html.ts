import {badInNames} from '../kit/text.ts';

/** Markup with every value escaped. Only `html` makes it. */
export type Html = {readonly markup: string};

export type Value = string | number | Html | readonly Html[] | null;

const names: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};

/** Escapes every text that is put in, for elements and quoted attributes alike; null puts nothing in. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
	const parts = strings.map((text, index) => text + markupOf(values[index] ?? null));
	return {markup: parts.join('')};
}

function markupOf(value: Value): string {
	if (value === null) {
		return '';
	}
	if (typeof value === 'object') {
		return 'markup' in value ? value.markup : value.map(one => one.markup).join('');
	}
	return String(value).replace(/[&<>"']/g, character => names[character] as string);
}

// Controls, and what turns the direction of writing beyond the name that holds it.
const unruly = new RegExp(`[${badInNames}]`, 'gu');

/** A name that others chose, as plain text: for titles and attributes, where no element can keep it apart. */
export function plainName(name: string): string {
	return name.replace(unruly, '');
}

/** A name that others chose, isolated from the text around it in any direction of writing. */
export function nameMarkup(name: string): Html {
	return html`<bdi>${plainName(name)}</bdi>`;
}

/** A text with the value of each `{name}`; every text is escaped. */
export function filled(text: string, values: Readonly<Record<string, Value>>): Html {
	const parts = text.split(/\{(\w+)\}/);
	return html`${parts.map((part, index) => html`${index % 2 === 0 ? part : (values[part] ?? null)}`)}`;
}
