import {badge, chips, copyable, count, facts, join, name, section, share, table} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import type {Answer, Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type DmarcSight, dmarcPeriod, stepOf, tlsWords} from './dmarc.ts';
import {returnPathHost} from './domain-records.ts';
import type {Domain} from './store.ts';

const periods = [
	{value: '7', label: '7 days'},
	{value: '', label: `${dmarcPeriod.default} days`},
	{value: '90', label: '90 days'},
];
const maxRows = 50;

/** Who sends with a domain in `From`, as DMARC reports say, and what to publish next. */
export async function dmarcPage(
	{query}: Visit,
	domain: Domain,
	{domains}: Pick<DashboardParts, 'domains'>,
): Promise<Answer> {
	const days = Number(periods.find(({value}) => value === query.get('days'))?.value || dmarcPeriod.default);
	const sight = await domains.reviewDmarc(domain, days);
	const to = `/domains/${domain.id}`;
	return {
		kind: 'page',
		place: 'domains',
		title: `Who sends as ${domain.name}`,
		actions: join([
			chips('Period', query, 'days', periods, `${to}/dmarc`),
			html`<a class="button" href="${to}">Domain</a>`,
		]),
		content: html`${adviceCard(domain, sight)}${section('Sources', sourceTable(sight))}`,
	};
}

function adviceCard(domain: Domain, {reports, reporters, days, unsigned, advice, tls}: DmarcSight): Html {
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
				: html`${count(reports)} in ${days} days, of ${name(reporters.join(', '))}`,
		],
		['Not signed', unsigned === 0 ? null : `reports of ${count(unsigned)} messages, which the advice leaves out`],
		[
			'A stricter policy',
			reports === 0
				? null
				: `would have stopped ${count(cost.ours)} mails of yours and ${count(cost.others)} of others in ${advice.days} days.`,
		],
		[`TLS to ${returnPathHost(domain)}`, tlsWords(tls)],
	])}<p class="soft">Anybody can send such a report: look who reports before you act on it.</p></div>`;
}

function sourceTable({sources, ips}: DmarcSight): Html {
	const more = ips - maxRows;
	return html`${table({
		label: 'Sources of mail',
		rows: sources.slice(0, maxRows),
		empty: html`<p>No reports yet.</p><p>They come a day or two after the DMARC record with our address is published.</p>`,
		columns: [
			// On a phone the reason is below it, so that all is seen without scrolling.
			{title: 'Address', cell: ({ip, why}) => html`${ip}<small class="narrow">${name(why)}</small>`, cut: true},
			{title: 'Who', cell: ({ours}) => (ours ? badge('you', 'good') : badge('others', 'idle'))},
			{title: 'Mails', cell: ({n}) => count(n), right: true},
			{title: 'Aligned', cell: ({n, aligned}) => share(aligned, n), right: true},
			{title: 'DKIM', cell: ({n, dkim}) => share(dkim, n), right: true, wide: true},
			{title: 'SPF', cell: ({n, spf}) => share(spf, n), right: true, wide: true},
			{title: 'Why not', cell: ({why}) => (why ? name(why) : '–'), cut: true, wide: true},
		],
	})}${more > 0 ? html`<p class="soft">and ${count(more)} more</p>` : ''}`;
}
