import {hostname} from 'node:os';
import {version as nodeVersion, pid} from 'node:process';
import {inspect} from '../doctor/doctor.ts';
import type {Finding, Status} from '../doctor/finding.ts';
import {type Html, html} from '../hosted/html.ts';
import {groupBy} from '../kit/collections.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import {stateOf} from '../resources/certificates/renewal.ts';
import {type Certificate, listCertificates} from '../resources/certificates/store.ts';
import {type Blocklisting, listBlocklistings} from '../store/blocklists.ts';
import {liveDaemon} from '../store/data-folder/daemon-file.ts';
import {freeBytes} from '../store/data-folder/data-dir.ts';
import {readStoreSize} from '../store/engine/dialect.ts';
import {listNodes, type SeenNode, silentMs} from '../store/nodes.ts';
import {incidentList, readVisible} from './incidents.ts';
import {live} from './live.ts';
import {badge, count, distance, facts, join, name, nothing, section, type Tone, table, time} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import type {Answer, Page, Route, Visit} from './route.ts';

/** The pages about the health of the installation. */
export const healthPages = (parts: DashboardParts, checks: CheckRunner): readonly Route[] => [
	...overviewPages(parts, checks),
	...checksPages(checks),
];

const healthPath = '/health';

const tabs = [
	['', 'Overview'],
	['/checks', 'Checks'],
] as const;

function healthPage(tab: (typeof tabs)[number][0], content: Html): Page {
	const links = tabs.map(([path, title]) => {
		const current = path === tab ? html` aria-current="page"` : nothing;
		return html`<a href="${healthPath}${path}"${current}>${title}</a>`;
	});
	return {
		kind: 'page',
		place: 'health',
		title: 'Health',
		content: html`<nav class="tabs" aria-label="Health pages">${links}</nav>${content}`,
	};
}

const units = ['octets', 'KB', 'MB', 'GB', 'TB'] as const;

/** Formats 1536000 as `1.5 MB`. */
function sizeText(octets: number): string {
	const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, Math.abs(octets))) / 3));
	const amount = octets / 1000 ** power;
	return `${amount.toLocaleString('en', {maximumFractionDigits: power === 0 || Math.abs(amount) >= 100 ? 0 : 1})} ${units[power]}`;
}

function overviewPages({reader, settings, version, process}: DashboardParts, checks: CheckRunner): readonly Route[] {
	/** With SQLite, this process is the only node. */
	async function readNodes(now: number): Promise<readonly SeenNode[]> {
		const [startedAt, seenAt] = [storeTime(process.startedAt), storeTime(now)];
		return settings.databaseUrl === null
			? [{id: '', host: hostname(), pid, version, roles: settings.roles, startedAt, seenAt}]
			: await listNodes(reader, storeTime(now - silentMs));
	}

	async function storeFacts(now: number): Promise<Html> {
		const [bytes, free] = await Promise.all([readStoreSize(reader), freeBytes(settings.dataDir)]);
		const sizes = process.storeSizes();
		const [day, week] = [describeGrowth(sizes, bytes, now, dayMs), describeGrowth(sizes, bytes, now, 7 * dayMs)];
		return facts([
			['Engine', settings.databaseUrl === null ? 'SQLite' : 'PostgreSQL'],
			['Size', sizeText(bytes)],
			['Growth', day ?? 'available an hour after the start'],
			['Growth, longer period', week === day ? null : week],
			['Data folder', name(settings.dataDir)],
			['Free space', sizeText(free)],
		]);
	}

	async function show(visit: Visit): Promise<Answer> {
		const {now} = visit;
		const incidents = await readVisible(reader, visit, checks.newest());
		const program = facts([
			['Version', version],
			['Node.js', nodeVersion],
			['Started', time(storeTime(process.startedAt), now)],
			['Delivery', settings.delivery],
		]);
		const blocklists = blocklistTable(await listBlocklistings(reader, now), now);
		const certificates = settings.acme
			? section('Certificates', certificateTable(await listCertificates(reader), now))
			: nothing;
		const state = html`${certificates}${section('Blocklists', blocklists)}${section('Store', html`<div class="card">${await storeFacts(now)}</div>`)}${section('Nodes', nodeTable(await readNodes(now), now))}`;
		return healthPage(
			'',
			join([
				html`<div class="card">${program}</div>`,
				section('Incidents', incidentList(incidents, now)),
				section('Checks', awaitedChecks),
				live('state', healthPath, state, '15s'),
			]),
		);
	}

	return [{method: 'GET', path: healthPath, role: 'admin', everywhere: true, answer: show}];
}

/** Compares the size with the oldest one known in the period. Sizes are recorded only while the process runs. */
function describeGrowth(
	sizes: ReturnType<DashboardParts['process']['storeSizes']>,
	bytes: number,
	now: number,
	period: number,
): string | null {
	const [oldest] = sizes.filter(({at}) => at >= now - period - dayMs / 24 && now - at > dayMs / 48);
	if (oldest === undefined) {
		return null;
	}
	const difference = bytes - oldest.bytes;
	return `${difference < 0 ? '−' : '+'}${sizeText(Math.abs(difference))} since ${distance(oldest.at - now)}`;
}

function nodeTable(rows: readonly SeenNode[], now: number): Html {
	return table<SeenNode>({
		label: 'Nodes',
		columns: [
			{title: 'Host', cell: ({host}) => name(host), cut: true},
			{title: 'Process', cell: row => String(row.pid), right: true},
			{title: 'Version', cell: row => row.version || '–', wide: true},
			{title: 'Roles', cell: ({roles}) => roles.join(', ') || '–'},
			{title: 'Started', cell: ({startedAt}) => time(startedAt, now), right: true},
			{title: 'Last seen', cell: ({seenAt}) => time(seenAt, now), right: true, wide: true},
		],
		rows,
		empty: html`<p>No node was active in the last 30 s.</p>`,
	});
}

const stateTones = {valid: 'good', due: 'busy', waiting: 'busy', failed: 'bad', unused: 'idle'} as const;

const maxCertificates = 100;

/** Lists the certificates as `mailctl certificate list` does, failed ones first. */
function certificateTable(rows: readonly Certificate[], now: number): Html {
	const state = (row: Certificate) => stateOf(row, now);
	const why = (fault: string | null) => (fault === null ? null : html`<br><span class="soft">${name(fault)}</span>`);
	return table<Certificate>({
		label: 'Certificates',
		columns: [
			{title: 'State', cell: row => badge(state(row), stateTones[state(row)])},
			{
				title: 'Name',
				cell: row => html`<div class="told">${name(row.name)}${why(row.fault ?? row.unused)}</div>`,
			},
			{title: 'Expires', cell: row => time(row.not_after, now), right: true},
		],
		rows: rows.toSorted((a, b) => Number(b.fault !== null) - Number(a.fault !== null)).slice(0, maxCertificates),
		empty: html`<p>No certificate has been requested yet.</p>`,
	});
}

const maxSources = 100;
const rankOf = ({state}: Blocklisting) => ['listed', 'refused', 'unknown', 'clear'].indexOf(state);

/** Shows the listings of each address and domain that mail is sent from, the worst first. */
function blocklistTable(rows: readonly Blocklisting[], now: number): Html {
	const rank = (source: readonly Blocklisting[]) => Math.min(...source.map(rankOf));
	const sources = [...groupBy(rows, ({source}) => source).values()].toSorted((a, b) => rank(a) - rank(b));
	return table<readonly Blocklisting[]>({
		label: 'Blocklists',
		columns: [
			{title: 'Source', cell: ([row]) => name(row?.source ?? '')},
			{title: 'Listings', cell: source => html`<div class="told">${listings(source, now)}</div>`},
			{title: 'Checked', cell: ([row]) => time(row?.asked_at ?? null, now), right: true, wide: true},
		],
		rows: sources.slice(0, maxSources),
		empty: html`<p>No blocklist was checked in the last hours: this installation has no public address and no verified domain, or does not deliver mail.</p>`,
	});
}

function listings(rows: readonly Blocklisting[], now: number): Html {
	const clear = rows.filter(({state}) => state === 'clear').length;
	const rest = rows.filter(({state}) => state !== 'clear').toSorted((a, b) => rankOf(a) - rankOf(b));
	return html`${rest.map(row => html`<div>${listing(row, now)}</div>`)}${clear > 0 ? html`<div>${badge('clear', 'good')} on ${clear === 1 ? '1 list' : `${clear} lists`}</div>` : null}`;
}

function listing({state, name: list, since, reason, delist}: Blocklisting, now: number): Html {
	return state === 'listed'
		? html`${badge('listed', 'bad')} ${list}, first seen ${time(since, now)}. ${name(reason ?? '')} <a href="${delist}" rel="noreferrer">Request removal</a>`
		: html`${badge('unknown', 'idle')} ${list}: ${name(reason ?? '')}`;
}

const checksPath = `${healthPath}/checks`;

/** The checks of `mailctl doctor`, which run when the page is requested. */
function checksPages(checks: CheckRunner): readonly Route[] {
	async function show(): Promise<Answer> {
		return healthPage('/checks', html`<div id="checks">${findingTable((await checks.look()).findings)}</div>`);
	}

	return [{method: 'GET', path: checksPath, role: 'admin', everywhere: true, answer: show}];
}

/** Replaced by the findings once the checks have run. Without scripts, a link opens them. */
const awaitedChecks: Html = html`<div id="checks" hx-get="${checksPath}" hx-trigger="load" hx-select="#checks" hx-swap="outerHTML"><div class="empty"><p>The checks take a few seconds: they query DNS, mail servers and a time server.</p><p><a href="${checksPath}">Run the checks</a></p></div></div>`;

const tones: Readonly<Record<Status, Tone>> = {ok: 'good', warn: 'warn', fail: 'bad'};
const order: readonly Status[] = ['fail', 'warn', 'ok'];

/** Lists failures first, then warnings. */
function findingTable(findings: readonly Finding[]): Html {
	const rows = findings.toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
	const countOf = (status: Status) => findings.filter(finding => finding.status === status).length;
	const sums = order.filter(status => countOf(status) > 0).map(status => `${count(countOf(status))} ${status}`);
	return html`<p>${sums.join(', ')}. <a href="${checksPath}">Check again</a></p>${table<Finding>({
		label: 'Checks',
		columns: [
			{title: 'Status', cell: ({status}) => badge(status, tones[status])},
			{title: 'Check', cell: ({check}) => check, cut: true},
			{title: 'Finding', cell: describeFinding},
		],
		rows,
		empty: html`<p>Nothing to check.</p>`,
	})}`;
}

function describeFinding({status, detail, why, fix}: Finding): Html {
	const advice =
		status === 'ok' ? null : html`<br><span class="soft">${why}</span><br><strong>Fix:</strong> ${name(fix)}`;
	return html`<div class="told">${name(detail)}${advice}</div>`;
}

/** The findings of the checks, and when they ran, in milliseconds. */
export type CheckReport = {readonly at: number; readonly findings: readonly Finding[]};

const freshMs = 3_600_000;

/** Runs the checks of `mailctl doctor` in the daemon. They take seconds, and query other servers. */
export function createCheckRunner({settings, live, version, process, tools}: DashboardParts) {
	let running: Promise<CheckReport> | null = null;
	let newest: CheckReport | null = null;

	/** Runs them now. Callers that arrive meanwhile get the same findings. */
	function look(): Promise<CheckReport> {
		running ??= inspect(
			{
				settings: {...settings, ...live()},
				version,
				daemon: liveDaemon(settings.dataDir),
				isReturnPathChosen: process.returnPathChosen,
				tools,
			},
			{began: () => undefined, found: () => undefined},
		)
			.then(findings => {
				newest = {at: tools.clock.now(), findings};
				return newest;
			})
			.finally(() => {
				running = null;
			});
		return running;
	}

	return {
		look,
		/** Returns the last findings, or `null` if there are none yet. */
		newest: () => newest,
		/** Does the same, and runs the checks again if they are old. */
		last(): CheckReport | null {
			if (newest === null || tools.clock.now() - newest.at > freshMs) {
				look().catch(() => undefined); // The page of the checks shows the error.
			}
			return newest;
		},
	};
}

export type CheckRunner = ReturnType<typeof createCheckRunner>;
