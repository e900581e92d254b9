import type {Settings} from '../../config/settings.ts';
import {countsSimulated, hoursOf, type Period, parsePeriod, periods, simulatedLine} from '../../dashboard/figures.ts';
import {
	badge,
	type Column,
	chips,
	code,
	count,
	emptyNote,
	name,
	nothing,
	section,
	share,
	table,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {toWording} from '../../mail/classify-reply.ts';
import type {BounceCategory} from '../../mail/outcome.ts';
import {simulatorDomain} from '../../mail/simulator.ts';
import {providerOf} from '../../outcome/infrastructure-alarm.ts';
import {dailyShare, daysBefore, utcDay} from '../../queue/pace/choose-route.ts';
import {readWarmUps, type WarmUpCount} from '../../store/queue/sites.ts';
import {type LastTry, type Refusal, readLastTries, readRefusals} from '../../store/reputation.ts';
import type {Workspace} from '../workspaces/store.ts';

/** How many messages are read: the newest ones, and the newest in each state that has a refusal. */
const sampled = {messages: 1000, refusals: 500};
const maxRows = 12;
const maxDestinations = 3;

/** The page about how mail servers receive the messages of a workspace. */
export function deliverabilityPages({reader, settings}: DashboardParts): readonly Route[] {
	async function deliverability({query, workspace, now}: Visit): Promise<Answer> {
		const period = parsePeriod(query);
		const simulated = countsSimulated(query);
		const newest = {workspaceId: workspace.id, since: now - hoursOf(period) * 3_600_000, simulated};
		const [attempted, refusals, sent] = await Promise.all([
			readLastTries(reader, {...newest, limit: sampled.messages}),
			readRefusals(reader, {...newest, limit: sampled.refusals}),
			readWarmUps(reader, storeTime(now).slice(0, 10)),
		]);
		const real = attempted.filter(({destination}) => destination !== simulatorDomain);
		const recipients = simulated ? attempted : real;
		const content = html`${simulatedLine('/deliverability', query, attempted.length - real.length)}${
			recipients.length === 0
				? noMail(period)
				: html`${summary(recipients, period)}${section('By provider', groupTable('Provider', groupRecipients(recipients, 'provider'), 'no reply yet'))}${refusalSections(refusals, period)}${section('By destination', groupTable('Destination', groupRecipients(recipients, 'destination'), '–'))}`
		}${section('Outbound routes', renderSources(settings, workspace, {sent, now}))}`;
		const actions = chips('Period', query, 'period', periods, '/deliverability');
		return {kind: 'page', place: 'deliverability', title: 'Deliverability', actions, content};
	}

	return [page('/deliverability', deliverability)];
}

const noMail = ({label}: Period): Html =>
	emptyNote(
		html`<p>No messages in the last ${label}.</p><p>This page shows what recipients’ mail servers accept, defer and refuse, and why.</p>`,
	);

function summary(recipients: readonly LastTry[], {label}: Period): Html {
	const all = sumUp(recipients);
	const tile = (title: string, figure: string, note: string): Html =>
		html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong><small>${note}</small></div>`;
	return html`<p class="soft">Based on ${count(all.recipients)} recipients of the newest messages of the last ${label} (at most ${count(sampled.messages)} messages).</p>
<div class="grid tiles">${[
		tile('Delivered', share(all.delivered, all.recipients), `${count(all.delivered)} recipients`),
		tile('Bounced', share(all.bounced, all.recipients), `${count(all.bounced)} recipients`),
		tile('Deferred', share(all.deferred, all.recipients), `${count(all.waiting)} waiting`),
		tile('TLS', share(all.tls, all.replied), `${share(all.verified, all.replied)} with a verified certificate`),
	]}</div>`;
}

function groupTable(title: string, groups: readonly Group[], nameless: string): Html {
	const ratio = (label: string, pair: (group: Group) => readonly [number, number], wide = false): Column<Group> => ({
		title: label,
		right: true,
		...(wide && {wide}),
		cell: group => share(...pair(group)),
	});
	const rows = table({
		label: title,
		rows: groups.slice(0, maxRows),
		empty: nothing,
		columns: [
			{
				title,
				cell: group => (group.name === null ? html`<span class="soft">${nameless}</span>` : name(group.name)),
				cut: true,
			},
			{title: 'Recipients', cell: group => count(group.recipients), right: true},
			ratio('Delivered', group => [group.delivered, group.recipients]),
			ratio('Bounced', group => [group.bounced, group.recipients]),
			ratio('Deferred', group => [group.deferred, group.recipients], true),
			{title: 'Waiting', cell: group => count(group.waiting), right: true, wide: true},
			ratio('TLS', group => [group.tls, group.replied], true),
		],
	});
	return html`${rows}${more(groups.length)}`;
}

const more = (total: number): Html =>
	total > maxRows ? html`<p class="more soft">and ${count(total - maxRows)} more</p>` : nothing;

function refusalSections(refusals: readonly Refusal[], {label}: Period): Html {
	const note = html`<p class="soft">${count(refusals.length)} refusals, from the newest ${count(sampled.refusals)} messages of the last ${label} that bounced and as many that are waiting. Numbers, addresses and ids are replaced by “…”.</p>`;
	const wordings = groupRefusals(refusals);
	const none = html`<p>No mail server refused a message.</p>`;
	return html`${section('Refusals by wording', html`${note}${table(wordingTable(wordings.slice(0, maxRows), none))}${more(wordings.length)}`)}${
		refusals.length === 0 ? nothing : section('Refusals by category', categoryTable(refusals))
	}`;
}

function wordingTable(rows: readonly Wording[], empty: Html) {
	const columns: Array<Column<Wording>> = [
		{
			title: 'Reply',
			cell: ({wording, example}) =>
				wording === example
					? name(wording)
					: html`<details class="said"><summary>${name(wording)}</summary><p class="soft">One reply in full:</p><pre>${name(example)}</pre></details>`,
		},
		{title: 'Category', cell: ({category}) => category ?? '–', wide: true},
		{title: 'Bounced', cell: ({bounced}) => count(bounced), right: true},
		{title: 'Waiting', cell: ({waiting}) => count(waiting), right: true},
		{title: 'Destinations', cell: ({destinations}) => topDestinations(destinations), wide: true},
	];
	return {label: 'Refusals by wording', rows, empty, columns};
}

/** Names the destinations with the most refusals. */
function topDestinations(destinations: ReadonlyMap<string, number>): Html {
	const sorted = [...destinations].sort(([, a], [, b]) => b - a).map(([destination]) => destination);
	const remaining = sorted.length - maxDestinations;
	const names = sorted.slice(0, maxDestinations).map((text, index) => html`${index > 0 ? ', ' : ''}${name(text)}`);
	return html`${names}${remaining > 0 ? html` <span class="soft">and ${count(remaining)} more</span>` : nothing}`;
}

function categoryTable(refusals: readonly Refusal[]): Html {
	const bounced = refusals.filter(({isQueued}) => !isQueued).length;
	return table({
		label: 'Refusals by category',
		rows: countCategories(refusals),
		empty: nothing,
		columns: [
			{title: 'Category', cell: row => (row.category === null ? badge('unknown', 'idle') : row.category)},
			{title: 'Bounced', cell: row => count(row.bounced), right: true},
			{title: 'Share of bounces', cell: row => share(row.bounced, bounced), right: true},
			{title: 'Waiting', cell: row => count(row.waiting), right: true},
		],
	});
}

/** The outcomes of recipients at one provider or destination. */
type Group = {
	/** `null` if no mail server has replied yet. */
	readonly name: string | null;
	recipients: number;
	delivered: number;
	bounced: number;
	waiting: number;
	/** Attempted more than once, or waiting for another attempt after a reply. */
	deferred: number;
	/** Recipients whose last reply came over TLS, and those of them with a verified certificate. */
	tls: number;
	verified: number;
	/** Recipients with any reply. */
	replied: number;
};

/** Returns the groups, the largest first. Among equals, the one with the most bounces comes first. */
function groupRecipients(recipients: readonly LastTry[], by: 'provider' | 'destination'): Group[] {
	const groups = new Map<string | null, Group>();
	for (const recipient of recipients) {
		const name = by === 'destination' ? recipient.destination : recipient.host && providerOf(recipient.host);
		const group = groups.get(name) ?? emptyGroup(name);
		groups.set(name, group);
		add(group, recipient);
	}
	return [...groups.values()].sort((a, b) => b.recipients - a.recipients || b.bounced - a.bounced);
}

/** Returns a group of all recipients. */
function sumUp(recipients: readonly LastTry[]): Group {
	const all = emptyGroup(null);
	for (const recipient of recipients) {
		add(all, recipient);
	}
	return all;
}

const emptyGroup = (name: string | null): Group => ({
	name,
	recipients: 0,
	delivered: 0,
	bounced: 0,
	waiting: 0,
	deferred: 0,
	tls: 0,
	verified: 0,
	replied: 0,
});

function add(group: Group, {state, attempts, isQueued, host, tls}: LastTry): void {
	group.recipients++;
	// A relay's reply is final: nothing is reported after it.
	group.delivered += state === 'delivered' || state === 'complained' || (state === 'sent' && !isQueued) ? 1 : 0;
	group.bounced += state === 'bounced' ? 1 : 0;
	group.waiting += isQueued ? 1 : 0;
	group.deferred += attempts > 1 || (isQueued && attempts > 0) ? 1 : 0;
	group.replied += host === null ? 0 : 1;
	group.tls += tls === null ? 0 : 1;
	group.verified += tls !== null && /\bverified\b/.test(tls) ? 1 : 0;
}

type Counts = {bounced: number; waiting: number};

/** Sorts the most frequent first. */
const byTotal = (a: Counts, b: Counts) => b.bounced + b.waiting - a.bounced - a.waiting;

/** Refusals with the same wording. */
type Wording = Counts & {
	readonly wording: string;
	/** One of the original replies. */
	readonly example: string;
	readonly category: BounceCategory | null;
	readonly destinations: Map<string, number>;
};

function groupRefusals(refusals: readonly Refusal[]): Wording[] {
	const groups = new Map<string, Wording>();
	for (const {destination, category, reply, isQueued} of refusals) {
		const wording = toWording(reply);
		const key = `${category} ${wording}`;
		const group = groups.get(key) ?? {
			wording,
			category,
			example: reply,
			bounced: 0,
			waiting: 0,
			destinations: new Map<string, number>(),
		};
		groups.set(key, group);
		group[isQueued ? 'waiting' : 'bounced']++;
		group.destinations.set(destination, (group.destinations.get(destination) ?? 0) + 1);
	}
	return [...groups.values()].sort(byTotal);
}

function countCategories(refusals: readonly Refusal[]) {
	const counts = new Map<BounceCategory | null, Counts>();
	for (const {category, isQueued} of refusals) {
		const row = counts.get(category) ?? {bounced: 0, waiting: 0};
		counts.set(category, row);
		row[isQueued ? 'waiting' : 'bounced']++;
	}
	return [...counts].map(([category, row]) => ({category, ...row})).sort(byTotal);
}

type SourceSettings = Pick<
	Settings,
	'delivery' | 'relays' | 'sourceAddresses' | 'sourcePools' | 'warmUps' | 'hostname'
>;

/** Describes the outbound routes and the warm-up of source addresses. `sent` is what they sent today. */
function renderSources(
	settings: SourceSettings,
	workspace: Workspace,
	{sent, now}: {readonly sent: readonly WarmUpCount[]; readonly now: number},
): Html {
	const {sourceAddresses, sourcePools, hostname} = settings;
	const pool = sourcePools.find(({name}) => name === workspace.source_pool);
	const rows = sourceAddresses.map(({ip, ehlo}) => ({
		ip,
		ehlo: ehlo ?? hostname,
		pools: sourcePools.filter(({addresses}) => addresses.includes(ip)).map(({name}) => name),
		isUsed: pool === undefined || pool.addresses.includes(ip),
	}));
	return html`<p>${describeRoute(settings, workspace)}</p>${
		rows.length === 0
			? nothing
			: table({
					label: 'Source addresses',
					rows,
					empty: nothing,
					columns: [
						{title: 'Address', cell: ({ip}) => code(ip)},
						{title: 'EHLO name', cell: ({ehlo}) => ehlo, wide: true},
						{title: 'Pools', cell: ({pools}) => pools.join(', ') || '–', wide: true},
						{
							title: 'This workspace',
							cell: ({isUsed}) => (isUsed ? badge('in use', 'good') : badge('not in use', 'idle')),
						},
						{title: 'Warm-up', cell: ({ip}) => warmUpState(settings, ip, sent, now)},
					],
				})
	}`;
}

function describeRoute({delivery, relays, sourceAddresses}: SourceSettings, {route}: Workspace): Html {
	if (route !== null) {
		return html`This workspace has its own route.`;
	}
	switch (delivery) {
		case 'capture':
			return html`Mail is captured: it never leaves this machine.`;
		case 'relay':
			return html`Mail is sent through ${relays.map(({host, port}) => `${host}:${port}`).join(', ')}. mailctl cannot see what the relay does with it.`;
		default:
			return sourceAddresses.length > 0
				? html`Mail is sent to the recipients’ mail servers from these addresses.`
				: html`Mail is sent to the recipients’ mail servers from an address that the system chooses. Set <code>MAILCTL_SOURCE_ADDRESSES</code> to choose others.`;
	}
}

function warmUpState({warmUps}: SourceSettings, ip: string, sent: readonly WarmUpCount[], now: number): Html {
	const warmUp = warmUps.find(({address}) => address === ip);
	if (warmUp === undefined) {
		return html`–`;
	}
	const today = utcDay(now);
	if (today < warmUp.start) {
		return html`starts ${warmUp.start}`;
	}
	const days = daysBefore(warmUp.start, today).length;
	// Days with too many deferrals do not count, so the actual limit may be lower.
	const share = dailyShare(days, warmUp.target);
	const sentToday = sent
		.filter(({source}) => source === ip)
		.map(({provider, n}) => `${provider} ${count(n)}`)
		.join(', ');
	return share === null
		? badge('complete', 'good')
		: html`${badge(`day ${days + 1}`, 'busy')} at most ${count(share)} to each provider; today ${sentToday || 'none yet'}`;
}
