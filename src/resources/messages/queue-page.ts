import {searchForm} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	badge,
	count,
	facts,
	hidden,
	input,
	name,
	nothing,
	opened,
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
/** Destinations that are listed, and stopped ones behind them. A search finds the others. */
const maxListed = 100;

/** What waits, where it goes, and what keeps it. */
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
	{rows: reading, problem}: {readonly rows: Promise<QueueStatus[]>; readonly problem: string | null},
): Promise<Answer> {
	const rows = await reading;
	return {
		kind: 'page',
		problem,
		place: 'queue',
		title: 'Queue',
		actions:
			may('operator') && seesAll ? opened('Suspend a domain', suspendForm(form.get('domain') ?? '')) : nothing,
		// Outside of the part that is fetched again, so that typing is not interrupted.
		content: html`${rows.length > maxListed ? searchForm({to: path, query, placeholder: 'example.com'}) : nothing}${live(
			'queue',
			toHref(path, query),
			html`${totals(rows)}${statuses(rows, query, now)}${seesAll ? bySite(sites(), now) : null}`,
			'10s',
		)}`,
	};
}

function totals(rows: readonly QueueStatus[]): Html {
	const sum = (of: (row: QueueStatus) => number) => count(rows.reduce((all, row) => all + of(row), 0));
	const figures = [
		['Ready', sum(row => row.ready)],
		['Later try', sum(row => row.deferred)],
		['Being tried', sum(row => row.in_flight)],
		['Held', sum(row => row.held)],
		...priorityFigures(rows),
	];
	return html`<div class="grid tiles">${figures.map(
		([title = '', figure = '']) =>
			html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong></div>`,
	)}</div>`;
}

/** How much mail of high and low priority waits, now or for a later try. */
const priorityFigures = (rows: readonly QueueStatus[]): Array<[title: string, figure: string]> =>
	(['high', 'low'] as const).flatMap(priority => {
		const n = rows.reduce((all, {by_priority: waits}) => all + waits[priority], 0);
		return n > 0 ? [[`${priority === 'high' ? 'High' : 'Low'} priority`, count(n)]] : [];
	});

function statuses(rows: readonly QueueStatus[], query: URLSearchParams, now: number): Html {
	const part = query.get('q')?.trim().toLowerCase() ?? '';
	const found = rows.filter(({destination}) => destination.includes(part));
	const stopped = found.slice(maxListed).filter(row => row.suspended);
	const listed = [...found.slice(0, maxListed), ...stopped.slice(0, maxListed)];
	const left = found.length - listed.length;
	return section(
		'By destination',
		html`${table({
			label: 'What waits, by destination',
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
					? html`<p>No mail waits.</p><p>Mail that cannot be delivered at once is listed here, with the reason and the time of the next try.</p>`
					: html`<p>No mail waits for such a destination.</p><p><a href="${path}">Show all</a></p>`,
		})}${left > 0 ? html`<p class="more soft">and ${count(left)} more with less mail: search for them</p>` : nothing}`,
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

/** How this process paces the hosts that share a limit, for the mail of all workspaces. */
function bySite(sites: readonly SiteReport[], now: number): Html {
	const busy = sites.toSorted((a, b) => b.inFlight - a.inFlight).slice(0, maxSites);
	return section(
		'By site',
		table({
			label: 'How sites are paced',
			columns: [
				{title: 'Site', cell: row => name(row.site), cut: true},
				{title: 'State', cell: siteBadge},
				{title: 'In flight', cell: row => count(row.inFlight), right: true},
				{
					title: 'Connections',
					cell: row => `${row.connections} of ${row.maxConnections}`,
					right: true,
					wide: true,
				},
				{
					title: 'A minute',
					cell: row => (row.perMinute === null ? 'no limit' : count(row.perMinute)),
					right: true,
				},
				{title: 'Until', cell: row => time(untilOf(row), now), right: true, wide: true},
				{title: 'Why', cell: row => name(row.reason ?? ''), wide: true, cut: true},
			],
			rows: busy,
			empty: html`<p>Nothing was sent for a while.</p><p>Hosts that share a limit are one site; each has its own pace.</p>`,
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

/** Stops all mail to a domain, of every workspace, and resumes it, from the page `show`. */
function suspensionForms(parts: DashboardParts, show: (visit: Visit, problem: string) => Promise<Answer>) {
	const form = operationForms(parts, {path, show, workspaceId: () => null});
	return [
		form(
			suspendDestination,
			`${path}/suspend`,
			({destination}) =>
				go(`${path}/${destination}`, `Nothing is sent to ${destination} until you resume it. Its mail waits.`),
			{read: ({form: sent}) => readTyped(sent)},
		),
		form(
			resumeDestination,
			`${path}/:destination/resume`,
			({isResumed}, {params: {destination}}) =>
				isResumed ? `Mail to ${destination} goes again.` : `${destination} was not suspended.`,
			{read: ({params}) => ({domain: params.destination ?? ''})},
		),
	];
}

const typedFields = listFields(suspendDestination.input);

/** Reads the fields that were not left blank. */
const readTyped = <Input extends object>(sent: URLSearchParams): Input =>
	readFields(
		typedFields.filter(({name}) => sent.get(name)?.trim()),
		sent,
	);

const maxShown = 50;

/** The mail that waits for one destination, why each waits, and what an operator can do about it. */
function destinationPages(parts: DashboardParts): readonly Route[] {
	const {reader, writer, webhooks} = parts;

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
		const known = status
			? facts([
					['State', statusBadge(status)],
					['Why', status.suspension_reason && name(status.suspension_reason)],
					['What to do', status.suspension_advice && name(status.suspension_advice)],
					['Until', status.suspended_until && time(status.suspended_until, now)],
					['Ready', count(status.ready)],
					['Later try', count(status.deferred)],
					['Being tried', count(status.in_flight)],
					['Held', count(status.held)],
					...priorityFigures([status]),
					['Oldest', time(status.oldest, now)],
				])
			: html`<p>No mail of this workspace waits for it.</p>`;
		const reply = status?.last_reply ? section('Last reply', html`<pre>${status.last_reply}</pre>`) : nothing;
		const waiting = table({
			label: `Mail that waits for ${destination}`,
			link: recipient => `/messages/${recipient.message_id}?copy=${recipient.id}`,
			columns: [
				{title: 'To', cell: recipient => name(recipient.address), cut: true},
				{title: 'Why it waits', cell: recipient => reasonText(reasons.get(recipient.id))},
				{title: 'Tries', cell: recipient => count(recipient.attempts), right: true},
				{title: 'Accepted', cell: recipient => time(recipient.accepted_at, now), right: true, wide: true},
				{title: 'Next try', cell: recipient => time(recipient.next_attempt_at, now), right: true, wide: true},
			],
			rows: recipients,
			empty: html`<p>Nothing waits.</p>`,
		});
		const more =
			recipients.length === maxShown ? html`<p class="soft">The ${maxShown} that are due first.</p>` : nothing;
		const content = live(
			'destination',
			`${path}/${destination}`,
			html`<div class="card">${known}</div>${reply}${section('Mail', html`${waiting}${more}`)}`,
			'10s',
		);
		const acts = may('operator') ? actions(destination, status?.suspended ?? false, seesAll) : nothing;
		return {
			kind: 'page',
			problem,
			place: 'queue',
			title: destination,
			actions: acts,
			content,
		};
	}

	async function run(visit: Visit, change: QueueChange): Promise<Answer> {
		const {params, workspace, tools, form: sent} = visit;
		const {destination = ''} = params;
		if (change.isFinal) {
			checkTyped(visit, destination, `Nothing was ended: type ${destination} to end its mail.`);
		}
		const {reason} = change.takesReason ? readTyped<QueueDetail>(sent) : {};
		const recipients = await findWaiting(reader, {workspaceId: workspace.id, destination});
		const options = {
			transaction: writer.transaction,
			tools,
			eventWriter: {newId: tools.newId, onDue: webhooks.reportDue},
			readSilentSince: async () => (await readDaemons(parts, tools.clock.now())).silentSince,
		};
		const {changed, busy} = await changeQueue(options, change, recipients, {destination, reason});
		const left = busy.length > 0 ? ` ${count(busy.length)} being attempted right now: repeat it in a moment.` : '';
		return go(`${path}/${destination}`, `${count(changed)} ${change.done}.${left}`);
	}

	const form = (change: QueueChange) => {
		const to = `${path}/:destination/${change.verb}`;
		return pageForms(show)(to, 'operator', visit => run(visit, change), change.isFinal && {fresh: true});
	};
	return [page(`${path}/:destination`, show), ...[hold, release, flush, drop, fail].map(form)];
}

function reasonText(why: Why | undefined): Html {
	if (why === undefined) {
		return html`<span class="soft">it has just left the queue</span>`;
	}
	return html`${name(why.detail)}${why.mend === null ? null : html`<br><small>${name(why.mend)}</small>`}`;
}

function actions(destination: string, isSuspended: boolean, seesAll: boolean): Html {
	const to = (verb: string) => `${path}/${destination}/${verb}`;
	const reason = input({name: 'reason', label: 'Reason'});
	const suspension = isSuspended
		? act({to: to('resume'), label: 'Resume'})
		: opened(
				'Suspend',
				act({
					to: `${path}/suspend`,
					label: 'Send nothing to it',
					fields: html`${hidden('domain', destination)}${reason}`,
				}),
			);
	return html`${act({to: to('flush'), label: 'Try now'})}${act({to: to('release'), label: 'Release', look: 'quiet'})}${opened(
		'Hold',
		act({to: to('hold'), label: 'Hold all of it', fields: reason}),
	)}${seesAll ? suspension : nothing}${opened(
		'End',
		html`<div class="stack"><p>Drop: the mail ends as errored, without webhooks. Fail: it ends as bounced, and webhooks are sent.</p>${act({to: to('drop'), label: 'Drop all of it', look: 'danger', typed: destination})}<hr>${act({to: to('fail'), label: 'Fail all of it', look: 'danger', typed: destination, fields: reason})}</div>`,
	)}`;
}
