import {changeQueue, drop, fail, flush, hold, type QueueChange, readQueueStatus, release} from '../../admin/queue.ts';
import {readWhyContext, type Why, whyWaiting} from '../../admin/why.ts';
import {type Html, html} from '../../hosted/html.ts';
import {labelFault} from '../../kit/text.ts';
import {findWaiting, listQueue, readRecipientFacts} from '../../store/queue/queue-summary.ts';
import {readDaemons} from '../daemons.ts';
import {live} from '../live.ts';
import {act, count, facts, input, name, nothing, opened, section, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {statusBadge} from './list.ts';

const path = '/queue';
const mostShown = 50;

/** The mail that waits for one destination, why each waits, and what an operator can do about it. */
export function destinationPages(parts: DashboardParts): readonly Route[] {
	const {reader, writer, webhooks, settings, ownRetryOf} = parts;

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {params, workspace, now, may, everywhere: seesAll} = visit;
		const destination = params.destination ?? '';
		const [status] = await readQueueStatus(reader, {now, workspaceId: workspace.id, idle: seesAll, destination});
		const recipients = await listQueue(reader, {workspaceId: workspace.id, destination, limit: mostShown});
		const read = await readRecipientFacts(
			reader,
			recipients.map(({id}) => id),
		);
		const context = await readWhyContext(reader, read, {
			now,
			daemons: await readDaemons(parts, now),
			settings,
			ownRetryOf,
		});
		const reasons = new Map(read.map(recipient => [recipient.id, whyWaiting(recipient, context)]));
		const known = status
			? facts([
					['State', statusBadge(status)],
					['Why', status.suspension_reason && name(status.suspension_reason)],
					['Until', status.suspended_until && time(status.suspended_until, now)],
					['Ready', count(status.ready)],
					['Later try', count(status.deferred)],
					['Being tried', count(status.in_flight)],
					['Held', count(status.held)],
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
			recipients.length === mostShown ? html`<p class="soft">The ${mostShown} that are due first.</p>` : nothing;
		const content = live(
			'destination',
			`${path}/${destination}`,
			html`<div class="card">${known}</div>${reply}${section('Mail', html`${waiting}${more}`)}`,
			'10s',
		);
		const acts = may('operator') ? actions(destination, status?.suspended ?? false, seesAll) : nothing;
		return {
			kind: 'page',
			...(problem !== null && {status: 422, problem}),
			place: 'queue',
			title: destination,
			actions: acts,
			content,
		};
	}

	async function run(
		visit: Visit,
		change: QueueChange,
		detail: Readonly<Record<string, unknown>> = {},
	): Promise<Answer> {
		const {params, workspace, tools} = visit;
		const destination = params.destination ?? '';
		const recipients = await findWaiting(reader, {workspaceId: workspace.id, destination});
		const options = {
			transaction: writer.transaction,
			tools,
			eventWriter: {newId: tools.newId, onDue: webhooks.onDue},
			readSilentSince: async () => (await readDaemons(parts, tools.clock.now())).silentSince,
		};
		const {changed, busy} = await changeQueue(options, change, recipients, {destination, ...detail});
		const left = busy.length > 0 ? ` ${count(busy.length)} being tried right now: repeat it in a moment.` : '';
		return go(`${path}/${destination}`, `${count(changed)} ${change.done}.${left}`);
	}

	/** With the reason that was typed; null: none was, and the change has its own. */
	async function withReason(visit: Visit, changeFor: (reason: string | undefined) => QueueChange): Promise<Answer> {
		const reason = visit.form.get('reason')?.trim() || undefined;
		const fault = reason === undefined ? null : labelFault(reason);
		return fault === null
			? await run(visit, changeFor(reason), reason === undefined ? {} : {reason})
			: await show(visit, `The reason ${fault}.`);
	}

	const typed =
		(work: (visit: Visit) => Promise<Answer>) =>
		async (visit: Visit): Promise<Answer> =>
			visit.form.get('typed') === visit.params.destination
				? await work(visit)
				: await show(visit, `Nothing was ended: type ${visit.params.destination} to end its mail.`);

	const to = (verb: string) => `${path}/:destination/${verb}`;
	return [
		{method: 'GET', path: `${path}/:destination`, role: 'viewer', answer: visit => show(visit)},
		{method: 'POST', path: to('hold'), role: 'operator', answer: visit => withReason(visit, () => hold)},
		{method: 'POST', path: to('release'), role: 'operator', answer: visit => run(visit, release)},
		{method: 'POST', path: to('flush'), role: 'operator', answer: visit => run(visit, flush)},
		{method: 'POST', path: to('drop'), role: 'operator', fresh: true, answer: typed(visit => run(visit, drop))},
		{method: 'POST', path: to('fail'), role: 'operator', fresh: true, answer: typed(visit => withReason(visit, fail))},
	];
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
					fields: html`<input type="hidden" name="domain" value="${destination}">${reason}`,
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
