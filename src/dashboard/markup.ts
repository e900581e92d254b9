import {randomUUID} from 'node:crypto';
import {type Html, html, nameMarkup, type Value} from '../hosted/html.ts';

// The building blocks of pages. The Content-Security-Policy allows no style attributes.

/** Joins parts without anything in between. */
export const join = (parts: readonly Html[]): Html => html`${parts}`;

export const nothing: Html = html``;

export type Column<Row> = {
	readonly title: string;
	readonly cell: (row: Row) => Value;
	/** Right-aligns numbers. */
	readonly right?: true;
	/** Hides the column in a narrow window. */
	readonly wide?: true;
	/** Whether the text may be truncated; hovering shows all of it. */
	readonly cut?: true;
	/** Fills the remaining width, with a second line of small text that may be truncated. */
	readonly details?: true;
};

export type Table<Row> = {
	/** Its name for screen readers. */
	readonly label: string;
	readonly columns: ReadonlyArray<Column<Row>>;
	readonly rows: readonly Row[];
	/** Shown if there are no rows, with what to do next. */
	readonly empty: Html;
	/** The page of a row: `j` and `k` select rows, Enter opens one. */
	readonly link?: (row: Row) => string;
};

/** Shows rows under their titles. The first cell contains the link of its row. */
export function table<Row>({label, columns, rows, empty, link}: Table<Row>): Html {
	if (rows.length === 0) {
		return emptyNote(empty);
	}
	// A column of buttons has no title.
	const head = columns.map(column =>
		column.title === '' ? html`<td></td>` : html`<th scope="col"${classOf(column)}>${column.title}</th>`,
	);
	const lines = rows.map(row => {
		const cells = columns.map((column, index) => {
			const value = column.cell(row);
			const content = index === 0 && link ? html`<a href="${link(row)}" data-row>${value}</a>` : html`${value}`;
			return html`<td${classOf(column)}>${content}</td>`;
		});
		// The id identifies a row when the table is refreshed, so that it keeps the focus.
		return html`<tr${link ? html` id="row-${link(row)}"` : nothing}>${cells}</tr>`;
	});
	return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>
<thead><tr>${head}</tr></thead>
<tbody>${lines}</tbody>
</table></div>`;
}

/** Shows a text in place of an empty list. */
export const emptyNote = (text: Value): Html => html`<div class="empty">${text}</div>`;

function classOf<Row>({right, wide, cut, details}: Column<Row>): Html {
	const names = [right && 'right', wide && 'wide', cut && 'cut', details && 'details']
		.filter(name => name !== undefined)
		.join(' ');
	return names === '' ? nothing : html` class="${names}"`;
}

/** Shows pairs of a name and a value, one below the other, except those whose value is `null`. */
export function facts(pairs: ReadonlyArray<readonly [string, Value]>): Html {
	const visible = pairs.filter(([, value]) => value !== null);
	return html`<dl class="facts">${visible.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Shows a part of a page under its own heading. */
export function section(title: string, content: Html, actions: Html = nothing): Html {
	return html`<section><header class="part"><h2>${title}</h2>${actions}</header>${content}</section>`;
}

/** The color of a state, which is never the only sign of it. */
export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'idle';

export function badge(text: string, tone: Tone): Html {
	return html`<span class="badge ${tone}">${text}</span>`;
}

/** Shows a stored time (RFC 3339) relative to now; hovering shows the exact time. */
export function time(stored: string | null, now: number): Html {
	if (stored === null) {
		return html`<span class="soft">–</span>`;
	}
	const exact = `${stored.slice(0, 19).replace('T', ' ')} UTC`;
	return html`<time datetime="${stored}" title="${exact}">${distance(Date.parse(stored) - now)}</time>`;
}

const units: ReadonlyArray<readonly [string, number]> = [
	['d', 86_400],
	['h', 3600],
	['min', 60],
	['s', 1],
];

/** Formats a time relative to now: `12 min ago`, `in 3 h`. */
export function distance(milliseconds: number): string {
	const seconds = Math.round(Math.abs(milliseconds) / 1000);
	const [unit, size] = units.find(([, size]) => seconds >= size) ?? ['s', 1];
	if (seconds < 1) {
		return 'now';
	}
	const amount = `${Math.floor(seconds / size)} ${unit}`;
	return milliseconds < 0 ? `${amount} ago` : `in ${amount}`;
}

/** Formats 1234567 as `1,234,567`. */
export const count = (n: number): string => n.toLocaleString('en');

/** Formats a part of a whole as `1.2 %`, or as a dash if the whole is 0. */
export const share = (part: number, whole: number): string =>
	whole === 0 ? '–' : `${((100 * part) / whole).toFixed(part === 0 || part === whole ? 0 : 1)} %`;

/** Shows an id in a monospaced font. */
export const code = (text: string): Html => html`<code>${text}</code>`;

/** Shows untrusted text, isolated from the direction of the text around it. */
export const name = nameMarkup;

/** Shows a text with a button that copies it; without scripts, only the text. */
export function copyable(text: string, label: string): Html {
	return html`<span class="copyable"><code>${text}</code>${copyButton(text, label)}</span>`;
}

/** Shows only the button that copies a text, if scripts run. */
export function copyButton(text: string, label: string): Html {
	return html`<button type="button" class="quiet" data-copy="${text}" aria-label="Copy ${label}" hidden>Copy</button>`;
}

export type Choice = {readonly value: string; readonly label: string};

/** Shows a drop-down list with its label. */
export function select(
	{name, label, value}: {readonly name: string; readonly label: string; readonly value: string},
	choices: readonly Choice[],
): Html {
	const options = choices.map(choice =>
		choice.value === value
			? html`<option value="${choice.value}" selected>${choice.label}</option>`
			: html`<option value="${choice.value}">${choice.label}</option>`,
	);
	return html`<label class="field"><span>${label}</span><select name="${name}">${options}</select></label>`;
}

type Input = {
	readonly name: string;
	readonly label: string;
	readonly value?: string | undefined;
	readonly type?: 'text' | 'search' | 'email' | 'password' | 'url' | 'number' | 'file' | 'datetime-local';
	readonly hint?: Html | string;
	readonly required?: boolean;
	readonly autocomplete?: string;
	readonly placeholder?: string;
};

/** Shows a single-line field with its label and a hint. */
export function input({name, label, value, type, hint, required, autocomplete, placeholder}: Input): Html {
	const attributes = [
		attribute('value', value),
		attribute('autocomplete', autocomplete ?? 'off'),
		attribute('placeholder', placeholder),
		required ? html` required` : nothing,
		hint === undefined ? nothing : html` aria-describedby="hint-${name}"`,
	];
	return html`<label class="field"><span>${label}</span><input type="${type ?? 'text'}" name="${name}"${attributes}>${
		hint === undefined ? null : html`<small id="hint-${name}">${hint}</small>`
	}</label>`;
}

/** Shows a field of several lines. Browsers ignore the line break after its tag. */
export function textarea(
	{name, label, value = '', hint}: Pick<Input, 'name' | 'label' | 'value' | 'hint'>,
	rows = 6,
): Html {
	return html`<label class="field"><span>${label}</span><textarea name="${name}" rows="${rows}" spellcheck="false">
${value}</textarea>${hint === undefined ? null : html`<small>${hint}</small>`}</label>`;
}

/** A field that is submitted but not shown. */
export const hidden = (name: string, value: string | number): Html =>
	html`<input type="hidden" name="${name}" value="${value}">`;

/** Shows a checkbox with its label beside it. */
export function checkbox(name: string, value: string, label: Value, isChecked = false): Html {
	return html`<label class="field check"><input type="checkbox" name="${name}" value="${value}"${isChecked ? html` checked` : nothing}><span>${label}</span></label>`;
}

function attribute(name: string, value: string | undefined): Html {
	return value === undefined ? nothing : html` ${name}="${value}"`;
}

/** A form that changes something. */
type Act = {
	readonly to: string;
	/** The text of the button. */
	readonly label: string;
	/** The fields, if the form has more than a button. */
	readonly fields?: Html;
	/** The style of the button: `danger` destroys something, `quiet` is rarely needed. */
	readonly look?: 'main' | 'danger' | 'quiet';
	/** Whether the form accepts a file. */
	readonly file?: true;
	/** A word that must be typed as confirmation, because the form destroys something permanently. */
	readonly typed?: string;
	/** The id by which elements outside the form belong to it. */
	readonly id?: string;
};

/**
 * The placeholder that `layout` replaces with the token that authenticates a form, because forms are rendered before
 * the token is known. No other text can contain it.
 */
const tokenPlaceholder = `\u0000${randomUUID()}\u0000`;

export function act({to, label, fields, look = 'main', file, typed, id}: Act): Html {
	const encoding = file ? html` enctype="multipart/form-data"` : nothing;
	const word = typed === undefined ? null : input({name: 'typed', label: `Type ${typed} to confirm`, required: true});
	const token = html`<input type="hidden" name="_csrf" value="${{markup: tokenPlaceholder}}">`;
	const content = html`${token}${fields ?? null}${word}<button class="${look}">${label}</button>`;
	return html`<form method="post" action="${to}" class="act${fields || word ? ' full' : ''}"${encoding}${attribute('id', id)}>${content}</form>`;
}

/** Shows content behind a button that opens it: for forms with fields that are rarely needed. */
export const disclosure = (label: string, content: Html, isOpen = false, look: 'main' | 'quiet' = 'quiet'): Html =>
	details(`opened ${look}`, label, html`<div class="card">${content}</div>`, isOpen);

/** Shows what is rarely needed or destroys something behind a button. Nothing without items. */
export const menu = (items: readonly Html[], label = 'More', isOpen = false): Html =>
	items.length === 0 ? nothing : details('opened menu', label, html`<div class="card">${items}</div>`, isOpen);

/** An item of a menu that shows its form before anything is done, hence the ellipsis. */
export const menuItem = (label: string, form: Html, isOpen = false, look: 'danger' | 'quiet' = 'quiet'): Html =>
	details(`item ${look}`, `${label}…`, form, isOpen);

/** An item of a menu that destroys something, once its form has said what. */
export const dangerItem = ({about, fields = nothing, ...action}: Omit<Act, 'look'> & {readonly about: string}): Html =>
	menuItem(action.label, act({...action, fields: html`<p>${about}</p>${fields}`, look: 'danger'}), false, 'danger');

const details = (look: string, label: string, content: Html, isOpen: boolean): Html =>
	html`<details class="${look}"${isOpen ? html` open` : nothing}><summary>${label}</summary>${content}</details>`;

/** Returns the markup with the token in each of its forms. */
export function withToken({markup}: Html, token: string): string {
	return markup.replaceAll(tokenPlaceholder, token);
}

/** Links to the same page with other values of one filter; the selected one is marked. */
export function chips(
	label: string,
	base: URLSearchParams,
	key: string,
	choices: readonly Choice[],
	path: string,
): Html {
	const selected = base.get(key) ?? '';
	const links = choices.map(({value, label: text}) =>
		chip(toHref(path, base, {[key]: value === '' ? null : value, after: null}), text, value === selected),
	);
	return chipRow(label, links);
}

export const chipRow = (label: string, links: readonly Html[]): Html =>
	html`<nav class="chips" aria-label="${label}">${links}</nav>`;

/** A link to the same page with another filter. `isSelected` marks the one that the page shows. */
export const chip = (href: string, text: Value, isSelected = false): Html =>
	html`<a href="${href}" class="chip"${isSelected ? html` aria-current="true"` : nothing}>${text}</a>`;

/** Returns a path with a query in which some values are replaced, or removed if they are `null`. */
export function toHref(
	path: string,
	query: URLSearchParams,
	changes: Readonly<Record<string, string | null>> = {},
): string {
	const changed = new URLSearchParams(query);
	for (const [key, value] of Object.entries(changes)) {
		if (value === null) {
			changed.delete(key);
		} else {
			changed.set(key, value);
		}
	}
	const text = changed.toString();
	return text === '' ? path : `${path}?${text}`;
}
