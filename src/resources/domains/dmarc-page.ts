import {badge, chips, copyable, count, facts, join, name, section, share, table} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import type {Answer, Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type DmarcReview, dmarcPeriod, stepOf, tlsWords} from './dmarc.ts';
import {returnPathHost} from './domain-records.ts';
import type {Domain} from './store.ts';

const periods = [
	{value: '7', label: '7 days'},
	{value: '', label: `${dmarcPeriod.default} days`},
	{value: '90', label: '90 days'},
];
const maxRows = 50;

/** The page that shows who sends with a domain in `From`, according to DMARC reports, and what to publish next. */
export async function dmarcPage(
	{query}: Visit,
	domain: Domain,
	{domains}: Pick<DashboardParts, 'domains'>,
): Promise<Answer> {
	const days = Number(periods.find(({value}) => value === query.get('days'))?.value || dmarcPeriod.default);
	const review = await domains.reviewDmarc(domain, days);
	const to = `/domains/${domain.id}`;
	return {
		kind: 'page',
		place: 'domains',
		title: `Who sends as ${domain.name}`,
		actions: join([
			chips('Period', query, 'days', periods, `${to}/dmarc`),
			html`<a class="button" href="${to}">Domain</a>`,
		]),
		content: html`${adviceCard(domain, review)}${section('Sources', sourceTable(review))}`,
	};
}

function adviceCard(domain: Domain, {reports, reporters, days, unsigned, advice, tls}: DmarcReview): Html {
	const {next, name: owner, record, why, cost} = advice;
	return html`<div class="card"><p><strong>${stepOf(advice)}</strong>: ${name(why)}.</p>${facts([
		[
			'Record',
			next === null ? null : html`<p>TXT <code>${owner}</code></p>${copyable(record, `the value of ${owner}`)}`,
		],
		[
			'Reports',
			reports === 0
				? `none in ${days} days`
				: html`${count(reports)} in ${days} days, from ${name(reporters.join(', '))}`,
		],
		['Not signed', unsigned === 0 ? null : `reports of ${count(unsigned)} messages, which the advice ignores`],
		[
			'A stricter policy',
			reports === 0
				? null
				: `would have stopped ${count(cost.ours)} of your messages and ${count(cost.others)} others in ${advice.days} days`,
		],
		[`TLS to ${returnPathHost(domain)}`, tlsWords(tls)],
	])}<p class="soft">Anyone can send such a report: check who sent it before you act on it.</p></div>`;
}

function sourceTable({sources, ips}: DmarcReview): Html {
	const more = ips - maxRows;
	return html`${table({
		label: 'Sources of messages',
		rows: sources.slice(0, maxRows),
		empty: html`<p>No reports yet.</p><p>They arrive a day or two after you publish the DMARC record.</p>`,
		columns: [
			// On a phone, the reason is below the address, so that everything is visible without scrolling.
			{title: 'Address', cell: ({ip, why}) => html`${ip}<small class="narrow">${name(why)}</small>`, cut: true},
			{title: 'Who', cell: ({ours}) => (ours ? badge('you', 'good') : badge('others', 'idle'))},
			{title: 'Messages', cell: ({n}) => count(n), right: true},
			{title: 'Aligned', cell: ({n, aligned}) => share(aligned, n), right: true},
			{title: 'DKIM', cell: ({n, dkim}) => share(dkim, n), right: true, wide: true},
			{title: 'SPF', cell: ({n, spf}) => share(spf, n), right: true, wide: true},
			{title: 'Why not', cell: ({why}) => (why ? name(why) : '–'), cut: true, wide: true},
		],
	})}${more > 0 ? html`<p class="soft">and ${count(more)} more</p>` : ''}`;
}
