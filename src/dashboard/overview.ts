import type {Knex} from 'knex';
import {type Html, html} from '../hosted/html.ts';
import {monthOf, storeTime} from '../kit/time.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import {sampleDomain} from '../resources/domains/rules.ts';
import {type Domain, listDomains} from '../resources/domains/store.ts';
import {listApiKeys} from '../resources/keys/store.ts';
import {pageTemplates} from '../resources/templates/store.ts';
import {type Endpoint, listEndpoints} from '../resources/webhooks/store.ts';
import {sampleTemplate} from '../resources/workspaces/sample.ts';
import {findPaused, type Workspace} from '../resources/workspaces/store.ts';
import {listSiteSuspensions, listSuspensions} from '../store/queue/open-recipients.ts';
import {sizeOf, summarizeQueue} from '../store/queue/queue-summary.ts';
import {readDeliveryTimes, readSimulated} from '../store/reputation.ts';
import {readMonth} from '../store/usage.ts';
import {chart} from './charts.ts';
import {
	countsSimulated,
	hoursOf,
	type Period,
	parsePeriod,
	periods,
	readReputation,
	readTraffic,
	reputationSection,
	simulatedLine,
	type Traffic,
	trafficSeries,
	withSimulated,
} from './figures.ts';
import type {Found, MadeChecks} from './health.ts';
import {live} from './live.ts';
import {badge, chips, count, name, nothing, section, share, time, toHref} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import type {Answer, Route, Visit} from './route.ts';
import {countingRest, createShared} from './shared.ts';

/**
 * The time to delivery is measured on this many of the newest deliveries, and simulated messages are looked for among
 * as many.
 */
const timed = 1000;
const maxEndpoints = 1000;
/** It shows sums of hours: looked at again often enough. */
const every = '30s';

/** The mail of a workspace in figures, and what needs attention. */
export function overviewPages(
	{reader, settings, live: liveSettings, tools: {clock}}: DashboardParts,
	checks: MadeChecks,
): readonly Route[] {
	const shared = createShared(clock, countingRest);

	async function overview(visit: Visit): Promise<Answer> {
		const {query, signedIn, may, workspace, everywhere, now} = visit;
		const period = parsePeriod(query);
		const since = now - hoursOf(period) * 3_600_000;
		const simulated = countsSimulated(query);
		const [real, times, simulations, queue, reputation, domains, endpoints] = await Promise.all([
			readTraffic(reader, workspace.id, period, now),
			readDeliveryTimes(reader, {workspaceId: workspace.id, since, limit: timed, simulated}),
			readSimulated(reader, {workspaceId: workspace.id, since, limit: timed}),
			shared(visit, workspace.id, () => summarizeQueue(reader, {now: storeTime(now), workspaceId: workspace.id})),
			readReputation(reader, workspace.id, now),
			listDomains(reader, workspace.id),
			listEndpoints(reader, workspace.id, {after: null, limit: maxEndpoints}),
		]);
		const traffic = simulated ? withSimulated(real, period, simulations) : real;
		const isSample = real.sums.accepted + simulations.length > timed;
		const destinations = new Set(queue.map(({destination}) => destination));
		// As the pages of the installation's health are for those alone.
		const runsIt = may('admin') && signedIn.user.workspaceId === null;
		const leaves = runsIt ? settings.delivery !== 'capture' : null;
		const parts = [
			await attention(reader, {
				workspace,
				everywhere,
				domains,
				endpoints,
				destinations,
				checked: runsIt ? checks.last() : undefined,
				now,
			}),
			await checklist(reader, {workspaceId: workspace.id, domains, endpoints, leaves}),
			simulatedLine('/overview', query, simulations.length, isSample ? timed : null),
			tiles(traffic, period, workspace.track_opens_at !== null),
			waitingAndTime(queue, times, now),
			trafficChart(traffic, period),
			reputationSection(reputation, liveSettings().reputation),
		];
		const content = live('overview', toHref('/overview', query), html`${parts}`, every);
		const actions = chips('Period', query, 'period', periods, '/overview');
		return {kind: 'page', place: 'overview', title: 'Overview', actions, content, charts: true};
	}

	return [{method: 'GET', path: '/overview', role: 'viewer', answer: overview}];
}

type Tile = {readonly title: string; readonly figure: string; readonly note: Html; readonly to: string};

function tile({title, figure, note, to}: Tile): Html {
	return html`<a class="card figure" href="${to}"><span class="soft">${title}</span><strong>${figure}</strong><small>${note}</small></a>`;
}

/** Counted when it happened: mail that was accepted before the period may be delivered in it. */
function tiles({sums}: Traffic, period: Period, tracksOpens: boolean): Html {
	const messages = (status?: string) =>
		toHref('/messages', new URLSearchParams({...(status && {status}), hours: String(hoursOf(period))}));
	const ofAccepted = (n: number) => html`${share(n, sums.accepted)} of accepted`;
	const ofDelivered = (n: number) => html`${share(n, sums.delivered)} of delivered`;
	return html`<div class="grid tiles">${[
		{title: 'Accepted', figure: count(sums.accepted), note: html`in ${period.label}`, to: messages()},
		...(['delivered', 'bounced'] as const).map(status => ({
			title: status === 'delivered' ? 'Delivered' : 'Bounced',
			figure: count(sums[status]),
			note: ofAccepted(sums[status]),
			to: messages(status),
		})),
		{
			title: 'Complained',
			figure: count(sums.complained),
			note: ofDelivered(sums.complained),
			to: messages('complained'),
		},
		...(tracksOpens || sums.opened > 0
			? [{title: 'Opened', figure: count(sums.opened), note: ofDelivered(sums.opened), to: messages('delivered')}]
			: []),
	].map(tile)}</div>`;
}

function trafficChart(traffic: Traffic, {span, label}: Period): Html {
	const series = trafficSeries(traffic);
	if (series.every(({values}) => values.every(n => n === 0))) {
		return html`<div class="empty tiles"><p>No mail in ${label}.</p><p>Send one with <code>mailctl send</code> or <code>POST /v1/messages</code>.</p></div>`;
	}
	return chart({
		label: `Messages by ${span === 'hours' ? 'hour' : 'day'}`,
		times: traffic.times,
		unit: 'count',
		series,
	});
}

type Queue = Awaited<ReturnType<typeof summarizeQueue>>;

function waitingAndTime(queue: Queue, times: readonly number[], now: number): Html {
	const waiting = queue.reduce((sum, row) => sum + sizeOf(row), 0);
	const oldest = queue.map(row => row.oldest).sort()[0];
	const sorted = times.toSorted((a, b) => a - b);
	const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
	const [median, p95] = [at(0.5), at(0.95)];
	return html`<div class="grid tiles">${[
		{
			title: 'Waiting',
			figure: count(waiting),
			note: oldest === undefined ? html`the queue is empty` : html`the oldest accepted ${time(oldest, now)}`,
			to: '/queue',
		},
		{
			title: 'Time to delivery',
			figure: median === undefined ? '–' : took(median),
			note:
				p95 === undefined
					? html`nothing delivered yet`
					: html`median; 95 % within ${took(p95)}, newest ${count(sorted.length)}`,
			to: '/deliverability',
		},
	].map(tile)}</div>`;
}

/** Milliseconds as `340 ms`, `1.2 s`, `5 min`. */
function took(milliseconds: number): string {
	const units: ReadonlyArray<readonly [string, number]> = [
		['d', 86_400_000],
		['h', 3_600_000],
		['min', 60_000],
		['s', 1000],
	];
	const [unit, size] = units.find(([, size]) => milliseconds >= size) ?? ['ms', 1];
	return `${Number((milliseconds / size).toFixed(unit === 'ms' || milliseconds >= 10 * size ? 0 : 1))} ${unit}`;
}

type Step = {readonly isDone: boolean; readonly text: string; readonly to: string; readonly how: string};

type SetUp = {
	readonly workspaceId: string;
	readonly domains: readonly Domain[];
	readonly endpoints: readonly Endpoint[];
	/** Whether mail leaves the machine; null: nothing that this user could change. */
	readonly leaves: boolean | null;
};

/** What is still to do before an application's mail arrives; nothing once all is done. */
async function checklist(reader: Knex, setUp: SetUp): Promise<Html> {
	const steps = await readSteps(reader, setUp);
	const done = steps.filter(({isDone}) => isDone).length;
	if (done === steps.length) {
		return nothing;
	}
	const lines = steps.map(
		({isDone, text, to, how}) =>
			html`<li>${isDone ? badge('done', 'good') : badge('to do', 'idle')} <div><a href="${to}">${text}</a>${isDone ? null : html`<br><small>${how}</small>`}</div></li>`,
	);
	return html`<section class="card"><header class="part"><h2>Set up</h2><span class="soft">${done} of ${steps.length} done</span></header><ol class="steps">${lines}</ol></section>`;
}

async function readSteps(reader: Knex, {workspaceId, domains, endpoints, leaves}: SetUp): Promise<Step[]> {
	const own = domains.filter(({name}) => name !== sampleDomain);
	// Two are enough to see one that is not the sample: the sample is the oldest.
	const templates = await pageTemplates(reader, workspaceId, {after: null, limit: 2});
	const keys = await listApiKeys(reader, workspaceId);
	return [
		{
			isDone: own.length > 0,
			text: 'Add your domain',
			to: '/domains',
			how: 'Mail is sent from addresses of a domain that is yours.',
		},
		{
			isDone: own.some(({state}) => state === 'verified' || state === 'degraded'),
			text: 'Publish its DNS records',
			to: own[0] === undefined ? '/domains' : `/domains/${own[0].id}`,
			how: 'They show receivers that the mail is yours. mailctl looks for them by itself.',
		},
		{
			isDone: templates.some(({name, latest_version: version}) => name !== sampleTemplate || (version ?? 0) > 1),
			text: 'Make a template of your own',
			to: '/templates',
			how: 'Or change the sample.',
		},
		{
			isDone: keys.some(({last_used_at: used}) => used !== null),
			text: 'Send with an API key',
			to: '/keys',
			how: 'The first start printed two keys; you can make others.',
		},
		...(leaves === null
			? []
			: [
					{
						isDone: leaves,
						text: 'Let mail leave this machine',
						to: '/health',
						how: 'Now it is captured. Set MAILCTL_DELIVERY to mx or relay and start again.',
					},
				]),
		{
			isDone: endpoints.length > 0,
			text: 'Add a webhook',
			to: '/webhooks',
			how: 'It tells your application of deliveries, bounces and complaints.',
		},
	];
}

/** Something that keeps mail back, or will: worst first. */
type Trouble = {readonly tone: 'bad' | 'warn'; readonly what: string; readonly text: Html; readonly to: string};

type AttentionInput = {
	readonly workspace: Workspace;
	/** The user sees the other workspaces too. */
	readonly everywhere: boolean;
	readonly domains: readonly Domain[];
	readonly endpoints: readonly Endpoint[];
	/** Where its mail waits for. */
	readonly destinations: ReadonlySet<string>;
	/** What the checks of the installation found; null: they are being made. Absent: the user may not see them. */
	readonly checked?: Found | null | undefined;
	readonly now: number;
};

/** More of one kind are summed up. */
const maxPerKind = 5;
/** As many paused workspaces are read. */
const maxPaused = 100;
/** The part of the month's quota from which on this page warns. */
const nearQuota = 0.9;

/** What needs attention, with a link to where it can be fixed. */
export async function attention(reader: Knex, input: AttentionInput): Promise<Html> {
	const troubles = [
		...(await pauses(reader, input)),
		...(await suspensions(reader, input)),
		...domainTroubles(input),
		...webhookTroubles(input),
		...(await quotaTroubles(reader, input)),
		...checkTroubles(input),
	];
	const checks = checksLine(input);
	if (troubles.length === 0) {
		return html`<p>${badge('all well', 'good')} Nothing is paused, suspended or failing. ${checks}</p>`;
	}
	const lines = troubles.map(
		({tone, what, text, to}) => html`<li>${badge(what, tone)} <div>${text} <a href="${to}">Look</a></div></li>`,
	);
	return section('Needs attention', html`<ul class="steps card">${lines}</ul>`, checks);
}

async function pauses(reader: Knex, {workspace, everywhere, now}: AttentionInput): Promise<Trouble[]> {
	const others = everywhere ? (await findPaused(reader, maxPaused)).filter(({id}) => id !== workspace.id) : [];
	return few(
		workspace.paused_at === null ? others : [workspace, ...others],
		one => ({
			tone: 'bad',
			what: 'paused',
			text: html`Workspace ${name(one.name)}, ${time(one.paused_at, now)}: ${name(one.pause_reason ?? 'by an operator')}. Its mail waits.`,
			to: `/workspaces/${one.id}`,
		}),
		left => ({tone: 'bad', what: 'paused', text: html`${left} more workspaces.`, to: '/workspaces'}),
	);
}

async function suspensions(reader: Knex, {workspace, destinations, now}: AttentionInput): Promise<Trouble[]> {
	const queueOf = (destination: string) => `/queue/${encodeURIComponent(destination)}`;
	const more = (left: number): Trouble => ({
		tone: 'warn',
		what: 'suspended',
		text: html`${left} more destinations.`,
		to: '/queue',
	});
	const sites = await listSiteSuspensions(reader, storeTime(now), {workspaceId: workspace.id});
	const byHand = (await listSuspensions(reader)).filter(({destination}) => destinations.has(destination));
	return [
		...few(
			byHand,
			({destination, reason, created_at: at}): Trouble => ({
				tone: 'warn',
				what: 'suspended',
				text: html`${name(destination)}, ${time(at, now)}: ${name(reason)}.`,
				to: queueOf(destination),
			}),
			more,
		),
		...few(
			sites,
			({destination, reason, waits_for: waitsFor, advice, suspended_until: until}): Trouble => ({
				tone: waitsFor === 'route' || advice !== null ? 'bad' : 'warn',
				what: 'suspended',
				text:
					waitsFor === 'route'
						? html`${name(reason ?? 'A smarthost refuses us')}. Mail to ${name(destination)} waits, next attempt ${time(until, now)}: ${relayAdvice(reason ?? '')}.`
						: html`${name(destination)}, ${advice === null ? 'its hosts fail' : 'it blocks our address'}, next try ${time(until, now)}: ${name(reason ?? '')}.${advice === null ? null : html` To do: ${name(advice)}.`}`,
				to: queueOf(destination),
			}),
			more,
		),
	];
}

function domainTroubles({domains}: AttentionInput): Trouble[] {
	const lost = domains.filter(
		({name: own, state, first_verified_at: verified}) =>
			own !== sampleDomain && verified !== null && (state === 'degraded' || state === 'failed'),
	);
	return few(
		lost,
		({id, name: own}) => ({
			tone: 'bad',
			what: 'DNS',
			text: html`${name(own)} no longer shows its records: receivers cannot tell that the mail is yours.`,
			to: `/domains/${id}`,
		}),
		left => ({tone: 'bad', what: 'DNS', text: html`${left} more domains.`, to: '/domains'}),
	);
}

function webhookTroubles({endpoints, now}: AttentionInput): Trouble[] {
	return few(
		endpoints.filter(({failingSince, disabledAt}) => failingSince !== null && disabledAt === null),
		({id, url, failingSince}) => ({
			tone: 'warn',
			what: 'webhook',
			text: html`${name(url)} has failed since ${time(failingSince, now)}.`,
			to: `/webhooks/${id}`,
		}),
		left => ({tone: 'warn', what: 'webhook', text: html`${left} more webhooks fail.`, to: '/webhooks'}),
	);
}

async function quotaTroubles(reader: Knex, {workspace, now}: AttentionInput): Promise<Trouble[]> {
	const quota = workspace.monthly_quota;
	if (quota === null) {
		return [];
	}
	const {accepted} = await readMonth(reader, workspace.id, monthOf(now).name);
	if (accepted < quota * nearQuota) {
		return [];
	}
	const text = html`${count(accepted)} of ${count(quota)} messages of this month are used.`;
	return [{tone: accepted < quota ? 'warn' : 'bad', what: 'quota', text, to: `/workspaces/${workspace.id}`}];
}

function checkTroubles({checked}: AttentionInput): Trouble[] {
	const failed = checked?.findings.filter(({status}) => status === 'fail') ?? [];
	return few(
		failed,
		({check, detail}) => ({
			tone: 'bad',
			what: 'check',
			text: html`${check}: ${name(detail)}.`,
			to: '/health/checks',
		}),
		left => ({tone: 'bad', what: 'check', text: html`${left} more checks fail.`, to: '/health/checks'}),
	);
}

function checksLine({checked, now}: AttentionInput): Html {
	if (checked === undefined) {
		return nothing;
	}
	const when = checked === null ? 'The checks are being made.' : html`Checked ${time(storeTime(checked.at), now)}.`;
	return html`<span><span class="soft">${when}</span> <a href="/health/checks">Run the checks</a></span>`;
}

function few<Row>(rows: readonly Row[], each: (row: Row) => Trouble, more: (left: number) => Trouble): Trouble[] {
	const left = rows.length - maxPerKind;
	return [...rows.slice(0, maxPerKind).map(each), ...(left > 0 ? [more(left)] : [])];
}
