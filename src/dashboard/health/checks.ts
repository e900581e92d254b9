import type {Finding, Status} from '../../doctor/finding.ts';
import {type Html, html} from '../../hosted/html.ts';
import {badge, count, name, type Tone, table} from '../markup.ts';
import type {Answer, Route} from '../route.ts';
import {healthPage, healthPath} from './frame.ts';
import type {MadeChecks} from './made-checks.ts';

const path = `${healthPath}/checks`;

/** The checks of `mailctl doctor`, made while the page is asked for. */
export function checksPages(checks: MadeChecks): readonly Route[] {
	async function show(): Promise<Answer> {
		return healthPage('/checks', html`<div id="checks">${findings((await checks.look()).findings)}</div>`);
	}

	return [{method: 'GET', path, role: 'admin', everywhere: true, answer: show}];
}

/** Where the checks come once they are made; without script a link leads to them. */
export const awaitedChecks: Html = html`<div id="checks" hx-get="${path}" hx-trigger="load" hx-select="#checks" hx-swap="outerHTML"><div class="empty"><p>The checks take some seconds: they ask DNS, mail hosts and a time server.</p><p><a href="${path}">Run the checks</a></p></div></div>`;

const tones: Readonly<Record<Status, Tone>> = {ok: 'good', warn: 'warn', fail: 'bad'};
const order: readonly Status[] = ['fail', 'warn', 'ok'];

/** What needs somebody comes first. */
function findings(found: readonly Finding[]): Html {
	const rows = found.toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
	const number = (status: Status) => found.filter(one => one.status === status).length;
	const sum = order.filter(status => number(status) > 0).map(status => `${count(number(status))} ${status}`);
	return html`<p>${sum.join(', ')}. <a href="${path}">Check again</a></p>${table<Finding>({
		label: 'Checks',
		columns: [
			{title: 'Status', cell: ({status}) => badge(status, tones[status])},
			{title: 'Check', cell: ({check}) => check, cut: true},
			{title: 'Found', cell: told},
		],
		rows,
		empty: html`<p>There is nothing to check.</p>`,
	})}`;
}

function told({status, detail, why, fix}: Finding): Html {
	const advice =
		status === 'ok' ? null : html`<br><span class="soft">${why}</span><br><strong>Fix:</strong> ${name(fix)}`;
	return html`<div class="told">${name(detail)}${advice}</div>`;
}
