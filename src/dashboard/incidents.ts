import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {type Html, html} from '../hosted/html.ts';
import {groupBy} from '../kit/collections.ts';
import {monthOf, storeTime} from '../kit/time.ts';
import {type AlertKind, alertKinds} from '../mail/alert.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import {type KnownCondition, listConditions} from '../resources/alerts/store.ts';
import {listEndpoints} from '../resources/webhooks/store.ts';
import {findPaused, type Workspace} from '../resources/workspaces/store.ts';
import {listSiteSuspensions, listSuspensions} from '../store/queue/open-recipients.ts';
import {sizeOf, summarizeQueue} from '../store/queue/queue-summary.ts';
import {readMonth} from '../store/usage.ts';
import type {CheckReport, CheckRunner} from './health.ts';
import {badge, count, name, nothing, time} from './markup.ts';
import type {Visit} from './route.ts';

/** Something that delays messages, or will. Overview, Alerts, Health and the navigation show the same list. */
export type Incident = {
	readonly tone: 'bad' | 'warn';
	readonly label: string;
	/** What is wrong and how to fix it. */
	readonly text: Html;
	/** RFC 3339, or `null` if unknown. */
	readonly since: string | null;
	/** How many recipients wait because of it, or `null` if it is not known to delay any. */
	readonly waiting: number | null;
	/** Who can fix it, if it is about mail or events that do not arrive. */
	readonly owner: 'us' | 'the provider' | 'the endpoint’s owner' | null;
	/** The page on which it can be fixed. */
	readonly to: string;
};

/** Whose incidents are read. */
export type IncidentScope = {
	/** The workspace of the page; `null` if there is none yet. */
	readonly workspace: Workspace | null;
	/** Whether the user sees all workspaces and the installation. */
	readonly everywhere: boolean;
	/** The findings of the checks; `null` while they run, absent if the user may not see them. */
	readonly checked?: CheckReport | null | undefined;
	readonly now: number;
};

/** Returns what the user of a page may see. */
export function incidentScope({request, everywhere, may, now}: Visit, checks: CheckRunner): IncidentScope {
	const workspace = request.visitor?.workspace ?? null;
	return {workspace, everywhere, checked: may('admin') && everywhere ? checks.last() : undefined, now};
}

/** A list on one page. Beyond that, the first ones are what matters. */
const maxListed = 200;
const maxEndpoints = 1000;
const maxPaused = 100;
/** The fraction of the monthly quota above which incidents begin. */
const nearQuota = 0.9;

type Waiting = ReadonlyMap<string, number>;

/** Reads what is wrong in everything that the user may see, the incidents that delay most messages first. */
export async function readIncidents(reader: Knex, scope: IncidentScope): Promise<readonly Incident[]> {
	const {workspace, everywhere, now} = scope;
	const open = (await listConditions(reader, everywhere ? null : (workspace?.id ?? ''))).filter(
		({announced_at: announced, ended_at: ended}) => announced !== null && ended === null,
	);
	const filter = everywhere ? {} : {workspaceId: workspace?.id ?? ''};
	const queue = await summarizeQueue(reader, {now: storeTime(now), ...filter});
	const waiting = new Map(queue.map(row => [row.destination, sizeOf(row)]));
	const sites = await listSiteSuspensions(reader, storeTime(now), filter);
	const incidents = [
		...siteIncidents(sites, open, waiting),
		...open.filter(condition => !isShownBySites(condition, sites)).map(conditionIncident),
		...(await pauseIncidents(reader, scope, open)),
		...(await suspensionIncidents(reader, waiting)),
		...(await endpointIncidents(reader, scope, open)),
		...(await quotaIncidents(reader, scope)),
		...checkIncidents(scope),
	];
	return incidents.toSorted(
		(a, b) =>
			(b.waiting ?? 0) - (a.waiting ?? 0) ||
			Number(b.tone === 'bad') - Number(a.tone === 'bad') ||
			((a.since ?? '') < (b.since ?? '') ? -1 : 1),
	);
}

type Sites = Awaited<ReturnType<typeof listSiteSuspensions>>;
type SiteKind = 'smarthost_refuses' | 'provider_blocks' | 'destination_failing';

function siteKind({waits_for: waitsFor, advice}: Sites[number]): SiteKind {
	return waitsFor === 'route' ? 'smarthost_refuses' : advice === null ? 'destination_failing' : 'provider_blocks';
}

/** Whether a provider that backs off now shows the condition already, with the number of messages. */
function isShownBySites({kind, subject}: KnownCondition, sites: Sites): boolean {
	return sites.some(row => siteKind(row) === kind && (kind === 'provider_blocks' || row.site === subject));
}

function siteIncidents(sites: Sites, open: readonly KnownCondition[], waiting: Waiting): Incident[] {
	return [...groupBy(sites, ({site}) => site)].flatMap(([site, rows]) => {
		const [first] = rows;
		if (first === undefined) {
			return [];
		}
		const kind = siteKind(first);
		const condition = open.find(row => row.kind === kind && row.subject === site);
		const reason = name(first.reason ?? 'unknown reason');
		const names = rows.slice(0, 3).map(({destination}) => destination);
		const to = `${names.join(', ')}${rows.length > names.length ? ` and ${rows.length - names.length} more` : ''}`;
		const texts: Readonly<Record<SiteKind, () => Html>> = {
			smarthost_refuses: () =>
				html`${name(site)} refuses us: ${reason}. To fix: ${relayAdvice(first.reason ?? '')}.`,
			provider_blocks: () =>
				html`${name(to)} blocks our address: ${reason}. To fix: ${name(first.advice ?? '')}.`,
			destination_failing: () => html`${name(to)} is not accepting mail: ${reason}.`,
		};
		return [
			{
				tone: kind === 'destination_failing' ? 'warn' : 'bad',
				label: alertKinds[kind].title,
				text: texts[kind](),
				since: condition?.began_at ?? null,
				waiting: rows.reduce((sum, {destination}) => sum + (waiting.get(destination) ?? 0), 0),
				owner: kind === 'destination_failing' ? 'the provider' : 'us',
				to: rows.length === 1 ? `/queue/${encodeURIComponent(first.destination)}` : '/queue',
			},
		];
	});
}

/** The page on which conditions of a kind can be fixed; `/health` if none is listed. */
const pagesOfKinds: Readonly<Partial<Record<AlertKind, string>>> = {
	domain_failed: '/domains',
	provider_blocks: '/queue',
	provider_refuses: '/deliverability',
	destination_failing: '/queue',
	queue_old: '/queue',
	smarthost_refuses: '/smarthosts',
	smarthost_silent: '/smarthosts',
};

const owners: Readonly<Partial<Record<AlertKind, Incident['owner']>>> = {
	blocklisted: 'us',
	domain_failed: 'us',
	provider_blocks: 'us',
	provider_refuses: 'us',
	destination_failing: 'the provider',
	smarthost_refuses: 'us',
	webhook_dead: 'the endpoint’s owner',
};

function conditionIncident(condition: KnownCondition): Incident {
	const {kind, subject, detail, fix, began_at: since, workspace_id: workspaceId} = condition;
	const page =
		kind === 'workspace_paused'
			? `/workspaces/${subject}`
			: kind === 'webhook_dead'
				? `/webhooks/${subject}`
				: (pagesOfKinds[kind] ?? '/health');
	return {
		tone: 'bad',
		label: alertKinds[kind].title,
		text: html`${name(detail)}.${fix === '' ? nothing : html` To fix: ${name(fix)}.`}`,
		since,
		waiting: null,
		owner: owners[kind] ?? null,
		to: workspaceId === null || kind === 'workspace_paused' ? page : `/w/${workspaceId}${page}`,
	};
}

const isKnown = (open: readonly KnownCondition[], kind: AlertKind, subject: string) =>
	open.some(condition => condition.kind === kind && condition.subject === subject);

/** Pauses that nobody is alerted to, because the workspace's own users made them, or because they are new. */
async function pauseIncidents(
	reader: Knex,
	{workspace, everywhere, now}: IncidentScope,
	open: readonly KnownCondition[],
): Promise<Incident[]> {
	const paused = everywhere ? await findPaused(reader, maxPaused) : workspace?.paused_at ? [workspace] : [];
	return paused
		.filter(({id}) => !isKnown(open, 'workspace_paused', id))
		.map(({id, name: title, paused_at: since, pause_reason: reason}) => ({
			tone: 'bad',
			label: alertKinds.workspace_paused.title,
			text: html`Workspace ${name(title)} was paused ${time(since, now)}: ${name(reason ?? 'by an operator')}. Its messages wait.`,
			since,
			waiting: null,
			owner: null,
			to: `/workspaces/${id}`,
		}));
}

/** Destinations that an operator suspended, with messages that wait for them. */
async function suspensionIncidents(reader: Knex, waiting: Waiting): Promise<Incident[]> {
	return (await listSuspensions(reader))
		.filter(({destination}) => waiting.has(destination))
		.map(({destination, reason, created_at: since}) => ({
			tone: 'warn',
			label: 'a destination is suspended',
			text: html`${name(destination)} was suspended by an operator: ${name(reason)}.`,
			since,
			waiting: waiting.get(destination) ?? null,
			owner: null,
			to: `/queue/${encodeURIComponent(destination)}`,
		}));
}

/** Webhooks of the workspace that fail, but not long enough for an alert. */
async function endpointIncidents(
	reader: Knex,
	{workspace}: IncidentScope,
	open: readonly KnownCondition[],
): Promise<Incident[]> {
	const endpoints =
		workspace === null ? [] : await listEndpoints(reader, workspace.id, {after: null, limit: maxEndpoints});
	return endpoints
		.filter(
			({id, failingSince, disabledAt}) =>
				failingSince !== null && disabledAt === null && !isKnown(open, 'webhook_dead', id),
		)
		.map(({id, url, failingSince}) => ({
			tone: 'warn',
			label: 'a webhook is failing',
			text: html`${name(url)} is not accepting events.`,
			since: failingSince,
			waiting: null,
			owner: 'the endpoint’s owner',
			to: `/webhooks/${id}`,
		}));
}

async function quotaIncidents(reader: Knex, {workspace, now}: IncidentScope): Promise<Incident[]> {
	const quota = workspace?.monthly_quota ?? null;
	if (workspace === null || quota === null) {
		return [];
	}
	const {accepted} = await readMonth(reader, workspace.id, monthOf(now).name);
	if (accepted < quota * nearQuota) {
		return [];
	}
	return [
		{
			tone: accepted < quota ? 'warn' : 'bad',
			label: 'the monthly quota is nearly used up',
			text: html`${count(accepted)} of ${count(quota)} messages in this month’s quota are used.`,
			since: null,
			waiting: null,
			owner: null,
			to: `/workspaces/${workspace.id}`,
		},
	];
}

function checkIncidents({checked}: IncidentScope): Incident[] {
	const failed = checked?.findings.filter(({status}) => status === 'fail') ?? [];
	return failed.map(({check, detail, fix}) => ({
		tone: 'bad',
		label: 'a check fails',
		text: html`${check}: ${name(detail)}.${fix === '' ? nothing : html` To fix: ${name(fix)}.`}`,
		since: null,
		waiting: null,
		owner: 'us',
		to: '/health/checks',
	}));
}

/** How many incidents there are, and how bad the worst one is. */
export type IncidentCount = {readonly count: number; readonly worst: Incident['tone'] | null};

const maxScopes = 200;
const shareMs = 5000;

/** Counts incidents for the navigation of every page. A count is shared for a while, because it reads the queue. */
export class IncidentCounter {
	readonly #reader: Knex;
	readonly #counts = new LRUCache<string, {readonly until: number; readonly count: Promise<IncidentCount>}>({
		max: maxScopes,
	});

	constructor(reader: Knex) {
		this.#reader = reader;
	}

	count(scope: IncidentScope): Promise<IncidentCount> {
		const key = `${scope.workspace?.id} ${scope.everywhere} ${scope.checked?.at}`;
		const known = this.#counts.get(key);
		if (known && scope.now < known.until) {
			return known.count;
		}
		const count = readIncidents(this.#reader, scope).then(toCount);
		this.#counts.set(key, {until: scope.now + shareMs, count});
		count.catch(() => this.#counts.delete(key));
		return count;
	}
}

function toCount(incidents: readonly Incident[]): IncidentCount {
	const isBad = incidents.some(({tone}) => tone === 'bad');
	return {count: incidents.length, worst: incidents.length === 0 ? null : isBad ? 'bad' : 'warn'};
}

/** Shows incidents, at most `limit`, with a link to the rest. */
export function incidentList(incidents: readonly Incident[], now: number, limit = maxListed): Html {
	if (incidents.length === 0) {
		return html`<p>${badge('all well', 'good')} Nothing is paused, suspended or failing.</p>`;
	}
	const lines = incidents.slice(0, limit).map(incident => {
		const {tone, label, text, to} = incident;
		return html`<li>${badge(label, tone)} <div>${text} <a href="${to}">View</a>${facts(incident, now)}</div></li>`;
	});
	const rest = incidents.length - limit;
	const more = rest > 0 ? html`<p class="more"><a href="/alerts">${count(rest)} more</a></p>` : nothing;
	return html`<ul class="steps card incidents">${lines}</ul>${more}`;
}

function facts({since, waiting, owner}: Incident, now: number): Html {
	const parts = [
		...(waiting === null || waiting === 0
			? []
			: [html`${count(waiting)} ${waiting === 1 ? 'message waits' : 'messages wait'}`]),
		...(since === null ? [] : [html`since ${time(since, now)}`]),
		...(owner === null ? [] : [html`for ${owner} to fix`]),
	];
	const [first, ...others] = parts;
	return first === undefined
		? nothing
		: html`<br><span class="soft">${first}${others.map(part => html` · ${part}`)}</span>`;
}
