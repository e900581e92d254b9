import type {Knex} from 'knex';
import {groupBy} from '../../kit/collections.ts';
import {monthOf, storeTime} from '../../kit/time.ts';
import {type AlertKind, alertKinds} from '../../mail/alert.ts';
import {relayAdvice} from '../../mail/relay-advice.ts';
import {listSuspensions} from '../../store/queue/open-recipients.ts';
import {sizeOf, summarizeQueue} from '../../store/queue/queue-summary.ts';
import {listWaitingSites, type WaitingSite} from '../../store/queue/sites.ts';
import {readMonth} from '../../store/usage.ts';
import {listEndpoints} from '../webhooks/store.ts';
import {findPaused, type Workspace} from '../workspaces/store.ts';
import {type KnownCondition, listConditions} from './store.ts';

/** Something that delays messages, or will. Overview, Alerts, Health and the navigation show the same list. */
export type Incident = {
	readonly tone: 'bad' | 'warn';
	readonly label: string;
	/** What is wrong, and how to fix it (`null` if waiting is enough), as one clause each. */
	readonly detail: string;
	readonly fix: string | null;
	/** RFC 3339, or `null` if unknown. */
	readonly since: string | null;
	/** How many recipients wait because of it, or `null` if it is not known to delay any. */
	readonly waiting: number | null;
	/** Who can fix it, if it is about mail or events that do not arrive. */
	readonly owner: 'us' | 'the provider' | 'the endpoint’s owner' | null;
	/** The page on which it can be fixed, in the current workspace if the path names none. */
	readonly to: string;
};

/** Whose incidents are read. */
export type IncidentScope = {
	/** The workspace of the page; `null` if there is none yet. */
	readonly workspace: Workspace | null;
	/** Whether the user sees all workspaces and the installation. */
	readonly everywhere: boolean;
	/** The checks of doctor that failed, if the user may see them. */
	readonly failedChecks: ReadonlyArray<{readonly check: string; readonly detail: string; readonly fix: string}>;
	readonly now: number;
};

const maxEndpoints = 1000;
const maxPaused = 100;
/** The fraction of the monthly quota above which incidents begin. */
const nearQuota = 0.9;

type Waiting = ReadonlyMap<string, number>;

/** Reads what is wrong in everything that the user may see, the incidents that delay most messages first. */
export async function readIncidents(reader: Knex, scope: IncidentScope): Promise<readonly Incident[]> {
	const {workspace, everywhere, now} = scope;
	const workspaceId = everywhere ? undefined : (workspace?.id ?? '');
	const open = (await listConditions(reader, workspaceId ?? null)).filter(
		({announced_at: announced, ended_at: ended}) => announced !== null && ended === null,
	);
	const queue = await summarizeQueue(reader, {now: storeTime(now), workspaceId});
	const waiting = new Map(queue.map(row => [row.destination, sizeOf(row)]));
	const sites = await listWaitingSites(reader, storeTime(now), workspaceId);
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

type SiteKind = 'smarthost_refuses' | 'provider_blocks' | 'destination_failing';

function siteKind({waits_for: waitsFor, advice}: WaitingSite): SiteKind {
	return waitsFor === 'route' ? 'smarthost_refuses' : advice === null ? 'destination_failing' : 'provider_blocks';
}

/** Whether a condition is about the provider. Those that share an entry share the condition that they block us. */
function isAbout({kind, subject}: KnownCondition, row: WaitingSite): boolean {
	return kind === siteKind(row) && subject === (kind === 'provider_blocks' ? row.provider : row.site);
}

/** Whether a provider that backs off now shows the condition already, with the number of messages. */
const isShownBySites = (condition: KnownCondition, sites: readonly WaitingSite[]): boolean =>
	sites.some(row => isAbout(condition, row));

function siteIncidents(sites: readonly WaitingSite[], open: readonly KnownCondition[], waiting: Waiting): Incident[] {
	return [...groupBy(sites, ({site}) => site).values()].flatMap(([first, ...others]) =>
		first === undefined ? [] : [siteIncident([first, ...others], open, waiting)],
	);
}

function siteIncident(
	rows: readonly [WaitingSite, ...WaitingSite[]],
	open: readonly KnownCondition[],
	waiting: Waiting,
): Incident {
	const [first] = rows;
	const kind = siteKind(first);
	const reason = first.reason || 'unknown reason';
	const destinations = [...new Set(rows.map(({destination}) => destination))];
	const more = destinations.length > 3 ? ` and ${destinations.length - 3} more` : '';
	const names = `${destinations.slice(0, 3).join(', ')}${more}`;
	const texts: Readonly<Record<SiteKind, Pick<Incident, 'detail' | 'fix'>>> = {
		smarthost_refuses: {detail: `${first.site} refuses us: ${reason}`, fix: relayAdvice(first.reason ?? '')},
		provider_blocks: {detail: `${names} blocks our address: ${reason}`, fix: first.advice},
		destination_failing: {detail: `${names} is not accepting mail: ${reason}`, fix: null},
	};
	const page = destinations.length === 1 ? `/queue/${encodeURIComponent(first.destination)}` : '/queue';
	return {
		tone: kind === 'destination_failing' ? 'warn' : 'bad',
		label: alertKinds[kind].title,
		...texts[kind],
		since: open.find(condition => isAbout(condition, first))?.began_at ?? null,
		waiting: destinations.reduce((sum, destination) => sum + (waiting.get(destination) ?? 0), 0),
		owner: kind === 'destination_failing' ? 'the provider' : 'us',
		to: `/w/${first.workspace_id}${page}`,
	};
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
		detail,
		fix: fix || null,
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
	{workspace, everywhere}: IncidentScope,
	open: readonly KnownCondition[],
): Promise<Incident[]> {
	const paused = everywhere ? await findPaused(reader, maxPaused) : workspace?.paused_at ? [workspace] : [];
	return paused
		.filter(({id}) => !isKnown(open, 'workspace_paused', id))
		.map(({id, name, paused_at: since, pause_reason: reason}) => ({
			tone: 'bad',
			label: alertKinds.workspace_paused.title,
			detail: `workspace ${name} is paused, and its messages wait: ${reason ?? 'by an operator'}`,
			fix: null,
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
			detail: `${destination} was suspended by an operator: ${reason}`,
			fix: null,
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
		.filter(({failingSince, disabledAt}) => failingSince !== null && disabledAt === null)
		.filter(({id}) => !isKnown(open, 'webhook_dead', id))
		.map(({id, url, failingSince}) => ({
			tone: 'warn',
			label: 'a webhook is failing',
			detail: `${url} is not accepting events`,
			fix: null,
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
			detail: `${accepted} of ${quota} messages in this month’s quota of ${workspace.name} are used`,
			fix: null,
			since: null,
			waiting: null,
			owner: null,
			to: `/workspaces/${workspace.id}`,
		},
	];
}

function checkIncidents({failedChecks}: IncidentScope): Incident[] {
	return failedChecks.map(({check, detail, fix}) => ({
		tone: 'bad',
		label: 'a check fails',
		detail: `${check}: ${detail}`,
		fix: fix || null,
		since: null,
		waiting: null,
		owner: null,
		to: '/health/checks',
	}));
}
