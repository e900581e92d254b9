import {randomUUID} from 'node:crypto';
import {type Html, html, nameMarkup, type Value} from '../hosted/html.ts';

// The building blocks of pages. The Content-Security-Policy allows no style attributes.

/** Markup of parts that stand side by side. */
export const join = (parts: readonly Html[]): Html => html`${parts}`;

export const nothing: Html = html``;

export type Column<Row> = {
	readonly title: string;
	readonly cell: (row: Row) => Value;
	/** Numbers stand at the right, under one another. */
	readonly right?: true;
	/** Left out where the window is narrow. */
	readonly wide?: true;
	/** May be cut, with the whole on hover. */
	readonly cut?: true;
	/** Takes what room there is, with a second line in small letters that may be cut. */
	readonly details?: true;
};

export type Table<Row> = {
	/** Its name for screen readers. */
	readonly label: string;
	readonly columns: ReadonlyArray<Column<Row>>;
	readonly rows: readonly Row[];
	/** Shown when there are no rows, with what to do next. */
	readonly empty: Html;
	/** Where a row leads: `j` and `k` walk the rows, Enter opens. */
	readonly link?: (row: Row) => string;
};

/** Rows under their titles. The first cell is the link of its row. */
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
			const shown = index === 0 && link ? html`<a href="${link(row)}" data-row>${value}</a>` : html`${value}`;
			return html`<td${classOf(column)}>${shown}</td>`;
		});
		// By its id a row is known again when the table is renewed, and keeps the focus.
		return html`<tr${link ? html` id="row-${link(row)}"` : nothing}>${cells}</tr>`;
	});
	return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>
<thead><tr>${head}</tr></thead>
<tbody>${lines}</tbody>
</table></div>`;
}

/** Shown where there is nothing to list. */
export const emptyNote = (text: Value): Html => html`<div class="empty">${text}</div>`;

function classOf<Row>({right, wide, cut, details}: Column<Row>): Html {
	const names = [right && 'right', wide && 'wide', cut && 'cut', details && 'details']
		.filter(name => name !== undefined)
		.join(' ');
	return names === '' ? nothing : html` class="${names}"`;
}

/** Pairs of a name and a value, one below the other; null leaves one out. */
export function facts(pairs: ReadonlyArray<readonly [string, Value]>): Html {
	const shown = pairs.filter(([, value]) => value !== null);
	return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A part of a page under a heading of its own. */
export function section(title: string, content: Html, actions: Html = nothing): Html {
	return html`<section><header class="part"><h2>${title}</h2>${actions}</header>${content}</section>`;
}

/** How good a state is. The colour never says it alone. */
export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'idle';

export function badge(text: string, tone: Tone): Html {
	return html`<span class="badge ${tone}">${text}</span>`;
}

/** A stored time (RFC 3339) as a distance from now; the exact one on hover. */
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

/** `12 min ago`, `in 3 h`. */
export function distance(milliseconds: number): string {
	const seconds = Math.round(Math.abs(milliseconds) / 1000);
	const [unit, size] = units.find(([, size]) => seconds >= size) ?? ['s', 1];
	if (seconds < 1) {
		return 'now';
	}
	const amount = `${Math.floor(seconds / size)} ${unit}`;
	return milliseconds < 0 ? `${amount} ago` : `in ${amount}`;
}

/** 1234567 as `1,234,567`. */
export const count = (n: number): string => n.toLocaleString('en');

/** `1.2 %`; of nothing nothing is said. */
export const share = (part: number, whole: number): string =>
	whole === 0 ? '–' : `${((100 * part) / whole).toFixed(part === 0 || part === whole ? 0 : 1)} %`;

/** An id, in the letters of machines. */
export const code = (text: string): Html => html`<code>${text}</code>`;

/** Text of strangers or of people, kept apart from the text around it. */
export const name = nameMarkup;

/** A text with a button that copies it; without script only the text, which can be marked. */
export function copyable(text: string, label: string): Html {
	return html`<span class="copyable"><code>${text}</code>${copyButton(text, label)}</span>`;
}

/** The button alone; it is there where scripts run. */
export function copyButton(text: string, label: string): Html {
	return html`<button type="button" class="quiet" data-copy="${text}" aria-label="Copy ${label}" hidden>Copy</button>`;
}

export type Choice = {readonly value: string; readonly label: string};

/** A drop-down list with its label. */
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

/** A field of one line with its label and a hint. */
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

/** A field of several lines. Browsers drop the line break after its tag. */
export function textarea(
	{name, label, value = '', hint}: Pick<Input, 'name' | 'label' | 'value' | 'hint'>,
	rows = 6,
): Html {
	return html`<label class="field"><span>${label}</span><textarea name="${name}" rows="${rows}" spellcheck="false">
${value}</textarea>${hint === undefined ? null : html`<small>${hint}</small>`}</label>`;
}

/** A field that is sent and not shown. */
export const hidden = (name: string, value: string | number): Html =>
	html`<input type="hidden" name="${name}" value="${value}">`;

/** A box to check, with its label beside it. */
export function checkbox(name: string, value: string, label: Value, isChecked = false): Html {
	return html`<label class="field check"><input type="checkbox" name="${name}" value="${value}"${isChecked ? html` checked` : nothing}><span>${label}</span></label>`;
}

function attribute(name: string, value: string | undefined): Html {
	return value === undefined ? nothing : html` ${name}="${value}"`;
}

/** A form that changes something. */
type Act = {
	readonly to: string;
	/** What the button says. */
	readonly label: string;
	/** The fields; absent: the button alone. */
	readonly fields?: Html;
	/** How the button looks: what destroys is red, what few need is quiet. */
	readonly look?: 'main' | 'danger' | 'quiet';
	/** The form takes a file. */
	readonly file?: true;
	/** A word that must be typed before it happens: what the form destroys does not come back. */
	readonly typed?: string;
	/** For elements outside the form that belong to it. */
	readonly id?: string;
};

/**
 * Where `layout` puts the token that proves that the form is ours. Forms are made before it is known; no text names the
 * place.
 */
const tokenPlace = `\u0000${randomUUID()}\u0000`;

export function act({to, label, fields, look = 'main', file, typed, id}: Act): Html {
	const encoding = file ? html` enctype="multipart/form-data"` : nothing;
	const word = typed === undefined ? null : input({name: 'typed', label: `Type ${typed} to go on`, required: true});
	const inside = html`<input type="hidden" name="_csrf" value="${{markup: tokenPlace}}">${fields ?? null}${word}<button class="${look}">${label}</button>`;
	return html`<form method="post" action="${to}" class="act${fields || word ? ' full' : ''}"${encoding}${attribute('id', id)}>${inside}</form>`;
}

/** The same behind a button that opens it: for what has fields and is not needed at every look. */
export function opened(label: string, content: Html, isOpen = false): Html {
	return html`<details class="opened"${isOpen ? html` open` : nothing}><summary>${label}</summary><div class="card">${content}</div></details>`;
}

/** The markup with the token in each of its forms. */
export function withToken({markup}: Html, token: string): string {
	return markup.replaceAll(tokenPlace, token);
}

/** Links to the same page with another value of one filter; the chosen one is marked. */
export function chips(
	label: string,
	base: URLSearchParams,
	key: string,
	choices: readonly Choice[],
	path: string,
): Html {
	const chosen = base.get(key) ?? '';
	const links = choices.map(({value, label: text}) =>
		chip(toHref(path, base, {[key]: value === '' ? null : value, after: null}), text, value === chosen),
	);
	return chipRow(label, links);
}

export const chipRow = (label: string, links: readonly Html[]): Html =>
	html`<nav class="chips" aria-label="${label}">${links}</nav>`;

/** A link to the same page with something else chosen. `isChosen`: it is what the page shows. */
export const chip = (href: string, text: Value, isChosen = false): Html =>
	html`<a href="${href}" class="chip"${isChosen ? html` aria-current="true"` : nothing}>${text}</a>`;

/** A path with a query where some values are replaced; null takes one out. */
export function toHref(
	path: string,
	query: URLSearchParams,
	changes: Readonly<Record<string, string | null>> = {},
): string {
	const next = new URLSearchParams(query);
	for (const [key, value] of Object.entries(changes)) {
		if (value === null) {
			next.delete(key);
		} else {
			next.set(key, value);
		}
	}
	const text = next.toString();
	return text === '' ? path : `${path}?${text}`;
}
