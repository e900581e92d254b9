import {searchForm} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	badge,
	count,
	dangerItem,
	disclosure,
	facts,
	hidden,
	input,
	join,
	menu,
	menuItem,
	name,
	nothing,
	section,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {checkTyped, operationForms, pageForms, readFields} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {countingRest, createShared} from '../../dashboard/shared.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import type {SiteReport} from '../../queue/site.ts';
import {findWaiting, listQueue} from '../../store/queue/queue-summary.ts';
import {listFields} from '../fields.ts';
import {
	changeQueue,
	drop,
	fail,
	flush,
	hold,
	type QueueChange,
	type QueueDetail,
	type QueueStatus,
	readQueueStatus,
	release,
	resumeDestination,
	suspendDestination,
} from './queue.ts';
import {findReasons, readDaemons} from './reasons-page.ts';
import type {Why} from './why.ts';

const path = '/queue';
const maxSites = 50;
/** How many destinations are listed, and how many more that are suspended. A search finds the others. */
const maxListed = 100;

/** The pages of the queue: the waiting messages by destination, and the reasons. */
export function queuePages(parts: DashboardParts): readonly Route[] {
	const shared = createShared(parts.tools.clock, countingRest);
	const list = (visit: Visit, problem: string | null = null) => {
		// A domain is suspended for all workspaces.
		const {workspace, now, everywhere: includesIdle} = visit;
		const status = {now, workspaceId: workspace.id, includesIdle};
		const rows = shared(visit, `${workspace.id} ${includesIdle}`, () => readQueueStatus(parts.reader, status));
		return queueList(parts, visit, {rows, problem});
	};
	return [page(path, list), ...suspensionForms(parts, list), ...destinationPages(parts)];
}

async function queueList(
	{process: {sites}}: DashboardParts,
	{everywhere: seesAll, query, now, form, may}: Visit,
	{rows: pendingRows, problem}: {readonly rows: Promise<QueueStatus[]>; readonly problem: string | null},
): Promise<Answer> {
	const rows = await pendingRows;
	return {
		kind: 'page',
		problem,
		place: 'queue',
		title: 'Queue',
		actions:
			may('operator') && seesAll
				? disclosure('Suspend a domain', suspendForm(form.get('domain') ?? ''))
				: nothing,
		// The search is outside of the part that is refreshed, so that typing is not interrupted.
		content: html`${rows.length > maxListed ? searchForm({to: path, query, placeholder: 'example.com'}) : nothing}${live(
			'queue',
			toHref(path, query),
			html`${totals(rows)}${statuses(rows, query, now)}${seesAll ? byProvider(sites(), now) : null}`,
			'10s',
		)}`,
	};
}

function totals(rows: readonly QueueStatus[]): Html {
	const sum = (figure: (row: QueueStatus) => number) => count(rows.reduce((total, row) => total + figure(row), 0));
	const figures = [
		['Ready', sum(row => row.ready)],
		['Deferred', sum(row => row.deferred)],
		['In flight', sum(row => row.in_flight)],
		['Held', sum(row => row.held)],
		...priorityFigures(rows),
	];
	return html`<div class="grid tiles">${figures.map(
		([title = '', figure = '']) =>
			html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong></div>`,
	)}</div>`;
}

/** The numbers of waiting messages of high and low priority, ready or deferred. */
const priorityFigures = (rows: readonly QueueStatus[]): Array<[title: string, figure: string]> =>
	(['high', 'low'] as const).flatMap(priority => {
		const n = rows.reduce((total, {by_priority: counts}) => total + counts[priority], 0);
		return n > 0 ? [[`${priority === 'high' ? 'High' : 'Low'} priority`, count(n)]] : [];
	});

function statuses(rows: readonly QueueStatus[], query: URLSearchParams, now: number): Html {
	const part = query.get('q')?.trim().toLowerCase() ?? '';
	const matches = rows.filter(({destination}) => destination.includes(part));
	const suspended = matches.slice(maxListed).filter(row => row.suspended);
	const listed = [...matches.slice(0, maxListed), ...suspended.slice(0, maxListed)];
	const remaining = matches.length - listed.length;
	return section(
		'By destination',
		html`${table({
			label: 'Waiting messages by destination',
			link: row => `${path}/${row.destination}`,
			columns: [
				{title: 'Destination', cell: row => name(row.destination), cut: true},
				{title: 'State', cell: statusBadge},
				{title: 'Ready', cell: row => count(row.ready), right: true},
				{title: 'Deferred', cell: row => count(row.deferred), right: true},
				{title: 'In flight', cell: row => count(row.in_flight), right: true, wide: true},
				{title: 'Held', cell: row => count(row.held), right: true, wide: true},
				{title: 'Oldest', cell: row => time(row.oldest, now), right: true, wide: true},
				{
					title: 'Last reply',
					cell: row => name(row.suspension_reason ?? row.last_reply ?? ''),
					wide: true,
					cut: true,
				},
			],
			rows: listed,
			empty:
				part === ''
					? html`<p>No messages are waiting.</p><p>Messages that cannot be delivered immediately are listed here, with the reason and the time of the next attempt.</p>`
					: html`<p>No messages are waiting for a matching destination.</p><p><a href="${path}">Show all</a></p>`,
		})}${remaining > 0 ? html`<p class="more soft">and ${count(remaining)} more with fewer messages: use the search</p>` : nothing}`,
	);
}

function statusBadge({suspended_by: by, held, ready, deferred, in_flight: now}: QueueStatus): Html {
	switch (by) {
		case 'operator':
			return badge('suspended', 'bad');
		case 'failures':
			return badge('backing off', 'warn');
		case 'route':
			return badge('route refuses', 'bad');
		case null:
			return held > 0 && ready + deferred + now === 0
				? badge('held', 'warn')
				: deferred > 0 && ready + now === 0
					? badge('deferred', 'warn')
					: badge('sending', 'busy');
	}
}

/** How this process limits sending to each provider, for all workspaces. */
function byProvider(sites: readonly SiteReport[], now: number): Html {
	const busy = sites.toSorted((a, b) => b.inFlight - a.inFlight).slice(0, maxSites);
	return section(
		'By provider',
		table({
			label: 'Sending limits by provider',
			columns: [
				{title: 'Provider', cell: row => name(row.site), cut: true},
				{title: 'State', cell: siteBadge},
				{title: 'In flight', cell: row => count(row.inFlight), right: true},
				{
					title: 'Connections',
					cell: row => `${row.connections} of ${row.maxConnections}`,
					right: true,
					wide: true,
				},
				{
					title: 'Per minute',
					cell: row => (row.perMinute === null ? 'no limit' : count(row.perMinute)),
					right: true,
				},
				{title: 'Until', cell: row => time(untilOf(row), now), right: true, wide: true},
				{title: 'Reason', cell: row => name(row.reason ?? ''), wide: true, cut: true},
			],
			rows: busy,
			empty: html`<p>No messages were sent recently.</p><p>Mail servers that share limits form a provider. Each provider has its own limits.</p>`,
		}),
	);
}

function siteBadge({suspendedUntil, waitsFor, slowUntil}: SiteReport): Html {
	return suspendedUntil !== null
		? badge(waitsFor === 'route' ? 'route refuses' : 'backing off', 'bad')
		: slowUntil !== null
			? badge('slowed', 'warn')
			: badge('open', 'good');
}

function untilOf({suspendedUntil, slowUntil}: SiteReport): string | null {
	const until = suspendedUntil ?? slowUntil;
	return until === null ? null : storeTime(until);
}

const suspendForm = (value: string): Html =>
	act({
		to: `${path}/suspend`,
		label: 'Suspend',
		fields: html`${input({name: 'domain', label: 'Domain', required: true, value, placeholder: 'example.com'})}${input({name: 'reason', label: 'Reason', placeholder: 'their disk is full'})}`,
	});

/** The forms that suspend and resume a domain for all workspaces. Their problems are shown on the page `show`. */
function suspensionForms(parts: DashboardParts, show: (visit: Visit, problem: string) => Promise<Answer>) {
	const form = operationForms(parts, {path, show, workspaceId: () => null});
	return [
		form(
			suspendDestination,
			`${path}/suspend`,
			({destination}) =>
				go(`${path}/${destination}`, `Sending to ${destination} is suspended until you resume it.`),
			{read: ({form: sent}) => readFilled(sent)},
		),
		form(
			resumeDestination,
			`${path}/:destination/resume`,
			({isResumed}, {params: {destination}}) =>
				isResumed ? `Sending to ${destination} resumed.` : `${destination} was not suspended.`,
			{read: ({params}) => ({domain: params.destination ?? ''})},
		),
	];
}

const suspendFields = listFields(suspendDestination.input);

/** Reads the fields that were not left blank. */
const readFilled = <Input extends object>(sent: URLSearchParams): Input =>
	readFields(
		suspendFields.filter(({name}) => sent.get(name)?.trim()),
		sent,
	);

const maxShown = 50;

/** The messages that are waiting for one destination, the reason for each, and what an operator can do about it. */
function destinationPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {params, workspace, now, may, everywhere: seesAll} = visit;
		const destination = params.destination ?? '';
		const [status] = await readQueueStatus(reader, {
			now,
			workspaceId: workspace.id,
			includesIdle: seesAll,
			destination,
		});
		const recipients = await listQueue(reader, {workspaceId: workspace.id, destination, limit: maxShown});
		const waitingIds = recipients.map(({id}) => id);
		const reasons = new Map((await findReasons(parts, waitingIds, now)).map(why => [why.id, why]));
		const summary = status
			? facts([
					['State', statusBadge(status)],
					['Reason', status.suspension_reason && name(status.suspension_reason)],
					['What to do', status.suspension_advice && name(status.suspension_advice)],
					['Until', status.suspended_until && time(status.suspended_until, now)],
					['Ready', count(status.ready)],
					['Deferred', count(status.deferred)],
					['In flight', count(status.in_flight)],
					['Held', count(status.held)],
					...priorityFigures([status]),
					['Oldest', time(status.oldest, now)],
				])
			: html`<p>No messages of this workspace are waiting for it.</p>`;
		const reply = status?.last_reply ? section('Last reply', html`<pre>${status.last_reply}</pre>`) : nothing;
		const waiting = table({
			label: `Messages waiting for ${destination}`,
			link: recipient => `/messages/${recipient.message_id}?copy=${recipient.id}`,
			columns: [
				{title: 'To', cell: recipient => name(recipient.address), cut: true},
				{title: 'Reason', cell: recipient => reasonText(reasons.get(recipient.id))},
				{title: 'Attempts', cell: recipient => count(recipient.attempts), right: true},
				{title: 'Accepted', cell: recipient => time(recipient.accepted_at, now), right: true, wide: true},
				{title: 'Next attempt', cell: row => time(row.next_attempt_at, now), right: true, wide: true},
			],
			rows: recipients,
			empty: html`<p>No messages are waiting.</p>`,
		});
		const more =
			recipients.length === maxShown ? html`<p class="soft">Only the first ${maxShown} are shown.</p>` : nothing;
		const content = live(
			'destination',
			`${path}/${destination}`,
			html`<div class="card">${summary}</div>${reply}${section('Messages', html`${waiting}${more}`)}`,
			'10s',
		);
		const actions = may('operator') ? renderActions(destination, status?.suspended ?? false, seesAll) : nothing;
		return {
			kind: 'page',
			problem,
			place: 'queue',
			title: destination,
			actions,
			content,
		};
	}

	async function run(visit: Visit, change: QueueChange): Promise<Answer> {
		const {params, workspace, form: sent} = visit;
		const {destination = ''} = params;
		if (change.isFinal) {
			checkTyped(visit, destination, `Nothing was changed: type ${destination} to confirm.`);
		}
		const {reason} = change.takesReason ? readFilled<QueueDetail>(sent) : {};
		const recipients = await findWaiting(reader, {workspaceId: workspace.id, destination});
		const {changed, busy} = await changeFromPage(parts, visit, change, recipients, {destination, reason});
		const skipped = busy.length > 0 ? ` ${count(busy.length)} in progress: try again in a moment.` : '';
		return go(`${path}/${destination}`, `${count(changed)} ${change.done}.${skipped}`);
	}

	const form = (change: QueueChange) => {
		const to = `${path}/:destination/${change.verb}`;
		return pageForms(show)(to, 'operator', visit => run(visit, change), change.isFinal && {fresh: true});
	};
	return [page(`${path}/:destination`, show), ...[hold, release, flush, drop, fail].map(form)];
}

/** Changes recipients beside the running daemons, with the visitor as the actor. */
export async function changeFromPage(
	parts: DashboardParts,
	{tools}: Visit,
	change: QueueChange,
	recipients: readonly string[],
	detail: QueueDetail,
): ReturnType<typeof changeQueue> {
	const options = {
		transaction: parts.writer.transaction,
		tools,
		eventWriter: {newId: tools.newId, onDue: parts.webhooks.reportDue},
		readSilentSince: async () => (await readDaemons(parts, tools.clock.now())).silentSince,
	};
	return await changeQueue(options, change, recipients, detail);
}

function reasonText(why: Why | undefined): Html {
	if (why === undefined) {
		return html`<span class="soft">it has just left the queue</span>`;
	}
	return html`${name(why.detail)}${why.mend === null ? null : html`<br><small>${name(why.mend)}</small>`}`;
}

/** The safe next step of a suspended destination is to resume it: until then, nothing can be tried. */
function renderActions(destination: string, isSuspended: boolean, seesAll: boolean): Html {
	const to = (verb: string) => `${path}/${destination}/${verb}`;
	const reason = input({name: 'reason', label: 'Reason'});
	const suspend = act({
		to: `${path}/suspend`,
		label: 'Suspend domain',
		look: 'quiet',
		fields: html`${hidden('domain', destination)}${reason}`,
	});
	const mayResume = isSuspended && seesAll;
	const deletion = {
		label: 'Delete from queue',
		about: 'Its waiting messages become errored, without webhook events.',
	};
	const bounce = {
		label: 'Bounce now',
		about: 'Its waiting messages bounce, and webhooks are notified.',
		fields: reason,
	};
	return join([
		...(mayResume ? [act({to: to('resume'), label: 'Resume'})] : []),
		act({to: to('flush'), label: 'Try now', look: mayResume ? 'quiet' : 'main'}),
		act({to: to('release'), label: 'Release', look: 'quiet'}),
		menu([
			menuItem('Hold', act({to: to('hold'), label: 'Hold all', fields: reason, look: 'quiet'})),
			...(seesAll && !isSuspended ? [menuItem('Suspend domain', suspend)] : []),
			dangerItem({to: to('drop'), ...deletion, typed: destination}),
			dangerItem({to: to('fail'), ...bounce, typed: destination}),
		]),
	]);
}
