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

/** How many of the newest messages are read, and of the newest in each state that has a refusal. */
const sampled = {messages: 1000, refusals: 500};
const maxRows = 12;
const maxDestinations = 3;

/** What receivers make of the mail of a workspace. */
export function deliverabilityPages({reader, settings}: DashboardParts): readonly Route[] {
	async function deliverability({query, workspace, now}: Visit): Promise<Answer> {
		const period = parsePeriod(query);
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
		}${section('Outbound routes', renderSources(settings, workspace, {sent, now}))}`;
		const actions = chips('Period', query, 'period', periods, '/deliverability');
		return {kind: 'page', place: 'deliverability', title: 'Deliverability', actions, content};
	}

	return [page('/deliverability', deliverability)];
}

const noMail = ({label}: Period): Html =>
	emptyNote(
		html`<p>No mail in ${label}.</p><p>This page shows what the hosts of recipients accept, defer and refuse, and why.</p>`,
	);

function summary(recipients: readonly LastTry[], {label}: Period): Html {
	const all = sumUp(recipients);
	const tile = (title: string, figure: string, note: string): Html =>
		html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong><small>${note}</small></div>`;
	return html`<p class="soft">Looked at: ${count(all.recipients)} copies of the newest messages of the last ${label}, at most ${count(sampled.messages)} messages, as they stand now.</p>
<div class="grid tiles">${[
		tile('Delivered', share(all.delivered, all.recipients), `${count(all.delivered)} copies`),
		tile('Bounced', share(all.bounced, all.recipients), `${count(all.bounced)} copies`),
		tile('Deferred', share(all.deferred, all.recipients), `${count(all.waiting)} wait now`),
		tile('TLS', share(all.tls, all.replied), `${share(all.verified, all.replied)} with a verified certificate`),
	]}</div>`;
}

function groupTable(title: string, groups: readonly Group[], nameless: string): Html {
	const part = (label: string, of: (group: Group) => readonly [number, number], wide = false): Column<Group> => ({
		title: label,
		right: true,
		...(wide && {wide}),
		cell: group => share(...of(group)),
	});
	const shown = table({
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
			part('Delivered', group => [group.delivered, group.recipients]),
			part('Bounced', group => [group.bounced, group.recipients]),
			part('Deferred', group => [group.deferred, group.recipients], true),
			{title: 'Waiting', cell: group => count(group.waiting), right: true, wide: true},
			part('TLS', group => [group.tls, group.replied], true),
		],
	});
	return html`${shown}${more(groups.length)}`;
}

const more = (all: number): Html =>
	all > maxRows ? html`<p class="more soft">and ${count(all - maxRows)} more</p>` : nothing;

function refusalParts(refusals: readonly Refusal[], {label}: Period): Html {
	const looked = html`<p class="soft">Of the newest ${count(sampled.refusals)} messages of the last ${label} that bounced, and as many that wait: ${count(refusals.length)} refusals. Numbers, addresses and ids are left out (…).</p>`;
	const wordings = groupRefusals(refusals);
	const none = html`<p>No host refused anything.</p>`;
	return html`${section('Refusals by wording', html`${looked}${table(wordingTable(wordings.slice(0, maxRows), none))}${more(wordings.length)}`)}${
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
	const left = sorted.length - maxDestinations;
	const names = sorted.slice(0, maxDestinations).map((one, index) => html`${index > 0 ? ', ' : ''}${name(one)}`);
	return html`${names}${left > 0 ? html` <span class="soft">and ${count(left)} more</span>` : nothing}`;
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
			{title: 'Of bounces', cell: row => share(row.bounced, bounced), right: true},
			{title: 'Waiting', cell: row => count(row.waiting), right: true},
		],
	});
}

/** The outcomes of recipients at one provider or destination. */
type Group = {
	/** Null: no host has replied yet. */
	readonly name: string | null;
	recipients: number;
	delivered: number;
	bounced: number;
	waiting: number;
	/** Tried more than once, or waiting for another attempt after a reply. */
	deferred: number;
	/** The last reply came over TLS, and with a verified certificate. */
	tls: number;
	verified: number;
	/** A host replied at all. */
	replied: number;
};

/** The largest first, of equal ones those that refuse most. */
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

/** All of them together. */
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
	// A smarthost's reply is final: nothing is reported after it.
	group.delivered += state === 'delivered' || state === 'complained' || (state === 'sent' && !isQueued) ? 1 : 0;
	group.bounced += state === 'bounced' ? 1 : 0;
	group.waiting += isQueued ? 1 : 0;
	group.deferred += attempts > 1 || (isQueued && attempts > 0) ? 1 : 0;
	group.replied += host === null ? 0 : 1;
	group.tls += tls === null ? 0 : 1;
	group.verified += tls !== null && /\bverified\b/.test(tls) ? 1 : 0;
}

type Counts = {bounced: number; waiting: number};

/** The most frequent first. */
const byTotal = (a: Counts, b: Counts) => b.bounced + b.waiting - a.bounced - a.waiting;

/** Refusals that say the same. */
type Wording = Counts & {
	readonly wording: string;
	/** One of the replies, as it came. */
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

/** How many refusals there are of each category. */
function countCategories(refusals: readonly Refusal[]) {
	const counts = new Map<BounceCategory | null, Counts>();
	for (const {category, isQueued} of refusals) {
		const one = counts.get(category) ?? {bounced: 0, waiting: 0};
		counts.set(category, one);
		one[isQueued ? 'waiting' : 'bounced']++;
	}
	return [...counts].map(([category, one]) => ({category, ...one})).sort(byTotal);
}

type SourceSettings = Pick<
	Settings,
	'delivery' | 'relays' | 'sourceAddresses' | 'sourcePools' | 'warmUps' | 'hostname'
>;

/** From where mail goes out, and how far new addresses are. `sent`: what they sent today. */
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
	return html`<p>${wayOut(settings, workspace)}</p>${
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

function wayOut({delivery, relays, sourceAddresses}: SourceSettings, {route}: Workspace): Html {
	if (route !== null) {
		return html`This workspace has a route of its own.`;
	}
	switch (delivery) {
		case 'capture':
			return html`Mail is captured: it never leaves this machine.`;
		case 'relay':
			return html`Mail leaves by ${relays.map(({host, port}) => `${host}:${port}`).join(', ')}. What that host sends on, and from where, is not seen here.`;
		default:
			return sourceAddresses.length > 0
				? html`Mail goes to the hosts of its recipients, from these addresses.`
				: html`Mail goes to the hosts of its recipients, from whichever address the system chooses. <code>MAILCTL_SOURCE_ADDRESSES</code> names others.`;
	}
}

function warmUpState({warmUps}: SourceSettings, ip: string, sent: readonly WarmUpCount[], now: number): Html {
	const warmUp = warmUps.find(({address}) => address === ip);
	if (warmUp === undefined) {
		return html`–`;
	}
	const today = utcDay(now);
	if (today < warmUp.start) {
		return html`begins ${warmUp.start}`;
	}
	const days = daysBefore(warmUp.start, today).length;
	// Days on which receivers defer too much do not count: what is allowed is at most this.
	const share = dailyShare(days, warmUp.target);
	const ofToday = sent
		.filter(({source}) => source === ip)
		.map(({provider, n}) => `${provider} ${count(n)}`)
		.join(', ');
	return share === null
		? badge('known', 'good')
		: html`${badge(`day ${days + 1}`, 'busy')} at most ${count(share)} to each provider; today ${ofToday || 'none yet'}`;
}
