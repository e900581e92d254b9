import {badInNames} from '../kit/text.ts';

/** Markup in which every inserted value is escaped. Only `html` creates it. */
export type Html = {readonly markup: string};

export type Value = string | number | Html | readonly Html[] | null;

const names: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};

/** Builds markup. Inserted texts are escaped for use in elements and quoted attributes; `null` inserts nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
	const parts = strings.map((text, index) => text + toMarkup(values[index] ?? null));
	return {markup: parts.join('')};
}

function toMarkup(value: Value): string {
	if (value === null) {
		return '';
	}
	if (typeof value === 'object') {
		return 'markup' in value ? value.markup : value.map(({markup}) => markup).join('');
	}
	return String(value).replace(/[&<>"']/g, character => names[character] as string);
}

// Control characters, and those that change the writing direction of the text after the name.
const unsafeCharacters = new RegExp(`[${badInNames}]`, 'gu');

/** Returns a user-supplied name as plain text, for titles and attributes, where it cannot be isolated by an element. */
export function plainName(name: string): string {
	return name.replace(unsafeCharacters, '');
}

/** Returns a user-supplied name, isolated so that its writing direction does not affect the text around it. */
export function nameMarkup(name: string): Html {
	return html`<bdi>${plainName(name)}</bdi>`;
}

/** Replaces each `{name}` of a text by its value. Both text and values are escaped. */
export function filled(text: string, values: Readonly<Record<string, Value>>): Html {
	const parts = text.split(/\{(\w+)\}/);
	return html`${parts.map((part, index) => html`${index % 2 === 0 ? part : (values[part] ?? null)}`)}`;
}
