import type {Knex} from 'knex';
import {type Html, html} from '../hosted/html.ts';
import {storeTime} from '../kit/time.ts';
import {sampleDomain} from '../resources/domains/rules.ts';
import {type Domain, listDomains} from '../resources/domains/store.ts';
import {listApiKeys} from '../resources/keys/store.ts';
import {pageTemplates} from '../resources/templates/store.ts';
import {type Endpoint, listEndpoints} from '../resources/webhooks/store.ts';
import {sampleTemplate} from '../resources/workspaces/sample.ts';
import {sizeOf, summarizeQueue} from '../store/queue/queue-summary.ts';
import {readDeliveryTimes, readSimulated} from '../store/reputation.ts';
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
import type {CheckReport, CheckRunner} from './health.ts';
import {incidentList, maySeeChecks, readVisible} from './incidents.ts';
import {live} from './live.ts';
import {badge, chips, count, nothing, section, share, time, toHref} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import type {Answer, Route, Visit} from './route.ts';
import {countingRest, createShared} from './shared.ts';

/** How many of the newest deliveries are measured for their duration, and searched for simulated messages. */
const maxSample = 1000;
const maxEndpoints = 1000;
/** How often an open overview is refreshed: it shows hourly sums. */
const refreshInterval = '30s';

/** The page with the figures of a workspace and what needs attention. */
export function overviewPages(
	{reader, settings, live: liveSettings, tools: {clock}}: DashboardParts,
	checks: CheckRunner,
): readonly Route[] {
	const shared = createShared(clock, countingRest);

	async function overview(visit: Visit): Promise<Answer> {
		const {query, workspace, everywhere, now} = visit;
		const period = parsePeriod(query);
		const since = now - hoursOf(period) * 3_600_000;
		const simulated = countsSimulated(query);
		const [real, times, simulations, queue, reputation, domains, endpoints] = await Promise.all([
			readTraffic(reader, workspace.id, period, now),
			readDeliveryTimes(reader, {workspaceId: workspace.id, since, limit: maxSample, simulated}),
			readSimulated(reader, {workspaceId: workspace.id, since, limit: maxSample}),
			shared(visit, workspace.id, () => summarizeQueue(reader, {now: storeTime(now), workspaceId: workspace.id})),
			readReputation(reader, workspace.id, now),
			listDomains(reader, workspace.id),
			listEndpoints(reader, workspace.id, {after: null, limit: maxEndpoints}),
		]);
		const traffic = simulated ? withSimulated(real, period, simulations) : real;
		const isSample = real.sums.accepted + simulations.length > maxSample;
		const checked = maySeeChecks(visit) ? checks.last() : undefined;
		// Only those who may see the checks can open the Health page.
		const isDelivering = checked === undefined ? null : settings.delivery !== 'capture';
		const incidents = await shared(visit, `${workspace.id} incidents ${everywhere} ${checked?.at}`, () =>
			readVisible(reader, visit, checked),
		);
		const parts = [
			attention(incidents, checked, now),
			await checklist(reader, {workspaceId: workspace.id, domains, endpoints, isDelivering}),
			simulatedLine('/overview', query, simulations.length, isSample ? maxSample : null),
			tiles(traffic, period, workspace.track_opens_at !== null),
			waitingAndTime(queue, times, now),
			trafficChart(traffic, period),
			reputationSection(reputation, liveSettings().reputation),
		];
		const content = live('overview', toHref('/overview', query), html`${parts}`, refreshInterval);
		const actions = chips('Period', query, 'period', periods, '/overview');
		return {kind: 'page', place: 'overview', title: 'Overview', actions, content, charts: true};
	}

	return [{method: 'GET', path: '/overview', role: 'viewer', answer: overview}];
}

type Tile = {readonly title: string; readonly figure: string; readonly note: Html; readonly to: string};

function tile({title, figure, note, to}: Tile): Html {
	return html`<a class="card figure" href="${to}"><span class="soft">${title}</span><strong>${figure}</strong><small>${note}</small></a>`;
}

/** Shows the counts of a period. A message that is delivered in it may have been accepted before. */
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
		return html`<div class="empty tiles"><p>No messages in the last ${label}.</p><p>Send one with <code>mailctl send</code> or <code>POST /v1/messages</code>.</p></div>`;
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
	const percentile = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
	const [median, p95] = [percentile(0.5), percentile(0.95)];
	return html`<div class="grid tiles">${[
		{
			title: 'Waiting',
			figure: count(waiting),
			note: oldest === undefined ? html`the queue is empty` : html`oldest accepted ${time(oldest, now)}`,
			to: '/queue',
		},
		{
			title: 'Time to delivery',
			figure: median === undefined ? '–' : formatDuration(median),
			note:
				p95 === undefined
					? html`nothing delivered yet`
					: html`median of the newest ${count(sorted.length)}; 95 % within ${formatDuration(p95)}`,
			to: '/deliverability',
		},
	].map(tile)}</div>`;
}

/** Formats a duration as `340 ms`, `1.2 s` or `5 min`. */
function formatDuration(milliseconds: number): string {
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
	/** Whether messages are delivered instead of captured, or `null` if this user cannot change that. */
	readonly isDelivering: boolean | null;
};

/** Lists the steps until an application's messages are delivered; nothing once all are done. */
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

async function readSteps(reader: Knex, {workspaceId, domains, endpoints, isDelivering}: SetUp): Promise<Step[]> {
	const own = domains.filter(({name}) => name !== sampleDomain);
	// Two are enough to find one that is not the sample, which is the oldest.
	const templates = await pageTemplates(reader, workspaceId, {after: null, limit: 2});
	const keys = await listApiKeys(reader, workspaceId);
	return [
		{
			isDone: own.length > 0,
			text: 'Add your domain',
			to: '/domains',
			how: 'You send from addresses at a domain that you own.',
		},
		{
			isDone: own.some(({state}) => state === 'verified' || state === 'degraded'),
			text: 'Publish its DNS records',
			to: own[0] === undefined ? '/domains' : `/domains/${own[0].id}`,
			how: 'They prove to receivers that the mail is yours. mailctl checks them automatically.',
		},
		{
			isDone: templates.some(({name, latest_version: version}) => name !== sampleTemplate || (version ?? 0) > 1),
			text: 'Create a template',
			to: '/templates',
			how: 'Or edit the sample.',
		},
		{
			isDone: keys.some(({last_used_at: used}) => used !== null),
			text: 'Send with an API key',
			to: '/keys',
			how: 'The first start printed two keys; you can create more.',
		},
		...(isDelivering === null
			? []
			: [
					{
						isDone: isDelivering,
						text: 'Enable delivery',
						to: '/health',
						how: 'Messages are only captured now. Set MAILCTL_DELIVERY to mx or relay and restart.',
					},
				]),
		{
			isDone: endpoints.length > 0,
			text: 'Add a webhook',
			to: '/webhooks',
			how: 'It notifies your application of deliveries, bounces and complaints.',
		},
	];
}

type Incidents = Awaited<ReturnType<typeof readVisible>>;

/** The incidents that are listed here; the page of alerts has all of them. */
const maxIncidents = 8;

function attention(incidents: Incidents, checked: CheckReport | null | undefined, now: number): Html {
	const list = incidentList(incidents, now, maxIncidents);
	const checks = checksLine(checked, now);
	return incidents.length === 0 ? html`${list}${checks}` : section('Needs attention', list, checks);
}

function checksLine(checked: CheckReport | null | undefined, now: number): Html {
	if (checked === undefined) {
		return nothing;
	}
	const when = checked === null ? 'The checks are running.' : html`Checked ${time(storeTime(checked.at), now)}.`;
	return html`<span><span class="soft">${when}</span> <a href="/health/checks">Run the checks</a></span>`;
}
