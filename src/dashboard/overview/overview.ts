import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {listDomains} from '../../store/domains.ts';
import {sizeOf, summarizeQueue} from '../../store/queue/queue-summary.ts';
import {readDeliveryTimes, readSimulated} from '../../store/reputation.ts';
import {listEndpoints} from '../../store/webhooks.ts';
import {chart} from '../charts.ts';
import type {MadeChecks} from '../health/made-checks.ts';
import {live} from '../live.ts';
import {chips, count, hrefOf, share, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {countingRest, createShared} from '../shared.ts';
import {attention} from './attention.ts';
import {checklist} from './checklist.ts';
import {readReputation, reputationSection} from './reputation.ts';
import {
	countsSimulated,
	hoursOf,
	type Period,
	periodOf,
	periods,
	readTraffic,
	simulatedLine,
	type Traffic,
	trafficSeries,
	withSimulated,
} from './traffic.ts';

/** The time to delivery is measured on this many of the newest deliveries, and simulated messages are looked for among as many. */
const timed = 1000;
const mostEndpoints = 1000;
/** It shows sums of hours: looked at again often enough. */
const every = '30s';

/** How the mail of a workspace fares, and what needs somebody. */
export function overviewPages(
	{reader, settings, live: liveSettings, tools: {clock}}: DashboardParts,
	checks: MadeChecks,
): readonly Route[] {
	const shared = createShared(clock, countingRest);

	async function overview(visit: Visit): Promise<Answer> {
		const {query, signedIn, may, workspace, everywhere, now} = visit;
		const period = periodOf(query);
		const since = now - hoursOf(period) * 3_600_000;
		const simulated = countsSimulated(query);
		const [real, times, simulations, queue, reputation, domains, endpoints] = await Promise.all([
			readTraffic(reader, workspace.id, period, now),
			readDeliveryTimes(reader, {workspaceId: workspace.id, since, limit: timed, simulated}),
			readSimulated(reader, {workspaceId: workspace.id, since, limit: timed}),
			shared(visit, workspace.id, () => summarizeQueue(reader, {now: storeTime(now), workspaceId: workspace.id})),
			readReputation(reader, workspace.id, now),
			listDomains(reader, workspace.id),
			listEndpoints(reader, workspace.id, {after: null, limit: mostEndpoints}),
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
		const content = live('overview', hrefOf('/overview', query), html`${parts}`, every);
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
		hrefOf('/messages', new URLSearchParams({...(status && {status}), hours: String(hoursOf(period))}));
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
	const [median, most] = [at(0.5), at(0.95)];
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
				most === undefined
					? html`nothing delivered yet`
					: html`median; 95 % within ${took(most)}, newest ${count(sorted.length)}`,
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
