import type {CheckedRecord} from '../../domains/check-records.ts';
import type {DomainRecord} from '../../domains/domain-records.ts';
import {openProofs, purposeOf} from '../../domains/record-words.ts';
import {type Html, html} from '../../hosted/html.ts';
import {badge, copyable, facts, join, name, type Tone} from '../markup.ts';

/** A record as it is to be published; with what DNS answers where it was asked. */
export type ShownRecord = DomainRecord & Partial<CheckedRecord>;

const words = {ok: 'published', missing: 'missing', different: 'different', unknown: 'no answer'} as const;
const tones: Readonly<Record<CheckedRecord['state'], Tone>> = {
	ok: 'good',
	missing: 'bad',
	different: 'bad',
	unknown: 'warn',
};

/** The records of a domain, each to be copied, with what is wrong. */
export function recordCards(records: readonly ShownRecord[]): Html {
	const proofs = openProofs(records);
	const isAsked = records.some(({state}) => state !== undefined);
	const either =
		isAsked && proofs.length > 1
			? html`<div class="notice warn"><p>To verify the domain, publish either of these. Receivers want the DKIM record.</p><ul>${proofs.map(
					record => html`<li>TXT <code>${record.name}</code></li>`,
				)}</ul></div>`
			: null;
	return html`${either}<ul class="records">${records.map(card)}</ul>`;
}

function card(record: ShownRecord): Html {
	const {type, name: owner, value, note, ready, problem = null, found, state, ok} = record;
	const purpose = purposeOf(record);
	const said = ok ? [] : found.map(text => html`<p><code>${name(text)}</code></p>`);
	return html`<li class="card"><h3>${type} <span class="soft">${purpose}</span> ${stateBadge(record)}</h3>${facts([
		['Name', copyable(owner, `the name of ${owner}`)],
		['Value', ready ? copyable(value, `the value of ${owner}`) : null],
		['DNS answers', said.length === 0 ? null : join(said)],
		[state === 'ok' ? 'Remark' : 'Problem', problem],
		['Note', note],
	])}</li>`;
}

/** What is missing but may be is no fault. */
function stateBadge({state, required}: ShownRecord): Html | null {
	if (state === undefined) {
		return null;
	}
	return badge(words[state], tones[state] === 'bad' && !required ? 'warn' : tones[state]);
}
