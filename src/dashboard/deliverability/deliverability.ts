import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {simulatorDomain} from '../../mail/simulator.ts';
import {readWarmUps} from '../../store/queue/sites.ts';
import {type LastTry, type Refusal, readLastTries, readRefusals} from '../../store/reputation.ts';
import {countsSimulated, hoursOf, type Period, periodOf, periods, simulatedLine} from '../figures.ts';
import {badge, type Column, chips, count, name, nothing, section, share, table} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {countCategories, type Group, groupRecipients, groupRefusals, sumOf, type Wording} from './groups.ts';
import {sourcesOf} from './sources.ts';

/** How many of the newest messages are read, and of the newest in each state that has a refusal. */
const sampled = {messages: 1000, refusals: 500};
const mostRows = 12;
const mostDestinations = 3;

/** What receivers make of the mail of a workspace. */
export function deliverabilityPages({reader, settings}: DashboardParts): readonly Route[] {
	async function deliverability({query, workspace, now}: Visit): Promise<Answer> {
		const period = periodOf(query);
		const simulated = countsSimulated(query);
		const newest = {workspaceId: workspace.id, since: now - hoursOf(period) * 3_600_000, simulated};
		const [tried, refusals, sent] = await Promise.all([
			readLastTries(reader, {...newest, limit: sampled.messages}),
			readRefusals(reader, {...newest, limit: sampled.refusals}),
			readWarmUps(reader, storeTime(now).slice(0, 10)),
		]);
		const real = tried.filter(({destination}) => destination !== simulatorDomain);
		const recipients = simulated ? tried : real;
		const content = html`${simulatedLine('/deliverability', query, tried.length - real.length)}${
			recipients.length === 0
				? noMail(period)
				: html`${summary(recipients, period)}${section('By provider', groupTable('Provider', groupRecipients(recipients, 'provider'), 'no reply yet'))}${refusalParts(refusals, period)}${section('By destination', groupTable('Destination', groupRecipients(recipients, 'destination'), '–'))}`
		}${section('Outbound routes', sourcesOf(settings, workspace, {sent, now}))}`;
		const actions = chips('Period', query, 'period', periods, '/deliverability');
		return {kind: 'page', place: 'deliverability', title: 'Deliverability', actions, content};
	}

	return [{method: 'GET', path: '/deliverability', role: 'viewer', answer: deliverability}];
}

const noMail = ({label}: Period): Html =>
	html`<div class="empty"><p>No mail in ${label}.</p><p>This page shows what the hosts of recipients accept, defer and refuse, and why.</p></div>`;

function summary(recipients: readonly LastTry[], {label}: Period): Html {
	const all = sumOf(recipients);
	const tile = (title: string, figure: string, note: string): Html =>
		html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong><small>${note}</small></div>`;
	return html`<p class="soft">Looked at: ${count(all.recipients)} copies of the newest messages of the last ${label}, at most ${count(sampled.messages)} messages, as they stand now.</p>
<div class="grid tiles">${[
		tile('Delivered', share(all.delivered, all.recipients), `${count(all.delivered)} copies`),
		tile('Bounced', share(all.bounced, all.recipients), `${count(all.bounced)} copies`),
		tile('Deferred', share(all.deferred, all.recipients), `${count(all.waiting)} wait now`),
		tile('TLS', share(all.tls, all.spoken), `${share(all.verified, all.spoken)} with a verified certificate`),
	]}</div>`;
}

function groupTable(title: string, groups: readonly Group[], nameless: string): Html {
	const part = (label: string, of: (group: Group) => readonly [number, number], wide = false): Column<Group> => ({
		...{title: label, right: true, ...(wide && {wide})},
		cell: group => share(...of(group)),
	});
	const shown = table({
		label: title,
		rows: groups.slice(0, mostRows),
		empty: nothing,
		columns: [
			{
				title,
				cell: group => (group.name === null ? html`<span class="soft">${nameless}</span>` : name(group.name)),
				cut: true,
			},
			{title: 'Recipients', cell: group => count(group.recipients), right: true},
			part('Delivered', group => [group.delivered, group.recipients]),
			part('Bounced', group => [group.bounced, group.recipients]),
			part('Deferred', group => [group.deferred, group.recipients], true),
			{title: 'Waiting', cell: group => count(group.waiting), right: true, wide: true},
			part('TLS', group => [group.tls, group.spoken], true),
		],
	});
	return html`${shown}${more(groups.length)}`;
}

const more = (all: number): Html =>
	all > mostRows ? html`<p class="more soft">and ${count(all - mostRows)} more</p>` : nothing;

function refusalParts(refusals: readonly Refusal[], {label}: Period): Html {
	const looked = html`<p class="soft">Of the newest ${count(sampled.refusals)} messages of the last ${label} that bounced, and as many that wait: ${count(refusals.length)} refusals. Numbers, addresses and ids are left out (…).</p>`;
	const wordings = groupRefusals(refusals);
	const none = html`<p>No host refused anything.</p>`;
	return html`${section('Refusals by wording', html`${looked}${table(wordingTable(wordings.slice(0, mostRows), none))}${more(wordings.length)}`)}${
		refusals.length === 0 ? nothing : section('Refusals by category', categoryTable(refusals))
	}`;
}

function wordingTable(rows: readonly Wording[], empty: Html) {
	const columns: Array<Column<Wording>> = [
		{
			title: 'What hosts say',
			cell: ({wording, example}) =>
				wording === example
					? name(wording)
					: html`<details class="said"><summary>${name(wording)}</summary><p class="soft">One of them in full:</p><pre>${name(example)}</pre></details>`,
		},
		{title: 'Category', cell: ({category}) => category ?? '–', wide: true},
		{title: 'Bounced', cell: ({bounced}) => count(bounced), right: true},
		{title: 'Waiting', cell: ({waiting}) => count(waiting), right: true},
		{title: 'Destinations', cell: ({destinations}) => firstOf(destinations), wide: true},
	];
	return {label: 'Refusals by wording', rows, empty, columns};
}

/** Those with most, the most first. */
function firstOf(destinations: ReadonlyMap<string, number>): Html {
	const sorted = [...destinations].sort(([, a], [, b]) => b - a).map(([destination]) => destination);
	const left = sorted.length - mostDestinations;
	const names = sorted.slice(0, mostDestinations).map((one, index) => html`${index > 0 ? ', ' : ''}${name(one)}`);
	return html`${names}${left > 0 ? html` <span class="soft">and ${count(left)} more</span>` : nothing}`;
}

function categoryTable(refusals: readonly Refusal[]): Html {
	const bounced = refusals.filter(({waits}) => !waits).length;
	return table({
		label: 'Refusals by category',
		rows: countCategories(refusals),
		empty: nothing,
		columns: [
			{title: 'Category', cell: row => (row.category === null ? badge('unknown', 'idle') : row.category)},
			{title: 'Bounced', cell: row => count(row.bounced), right: true},
			{title: 'Of bounces', cell: row => share(row.bounced, bounced), right: true},
			{title: 'Waiting', cell: row => count(row.waiting), right: true},
		],
	});
}
