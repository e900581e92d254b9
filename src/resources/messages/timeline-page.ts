import {join, name, section, type Tone, time, toHref} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Html, html} from '../../hosted/html.ts';
import type {EventType} from '../../mail/message.ts';
import {
	type EngagementCount,
	readEngagement,
	type StoredAttempt,
	type StoredRecipient,
} from '../../store/recipients.ts';
import {readReports, type StoredReport} from '../../store/reports.ts';
import {readEvents, type StoredEvent} from '../../store/timeline.ts';
import {mailTable} from '../received/page.ts';
import {listReceived} from '../received/store.ts';
import {lines, type Opened} from './mail-page.ts';
import {stateBadge} from './page.ts';
import {findReasons} from './reasons-page.ts';
import {attemptText, engagementText, eventText, reportText, textOrNull} from './timeline-text.ts';
import type {Reason, Why} from './why.ts';

const maxEvents = 1000;
const maxReports = 100;

/** Renders what happened to a message: why it is waiting, its events, and each recipient's attempts and reports. */
export async function renderTimeline(
	parts: Pick<DashboardParts, 'reader' | 'settings' | 'ownRetryOf'>,
	{workspaceId, message, recipients}: Opened,
	now: number,
): Promise<Html> {
	const {reader} = parts;
	const events = await readEvents(reader, message.id, {after: null, limit: maxEvents});
	const reports = await readReports(reader, message.id, maxReports);
	const engagement = await readEngagement(reader, message.id);
	const {rows: replies} = await listReceived(reader, {workspaceId, terms: [`re:${message.id}`]});
	const waiting = recipients.filter(recipient => recipient.next_attempt_at !== null).map(({id}) => id);
	const reasons = await findReasons(parts, waiting, now);
	const hasSeveral = recipients.length > 1;
	return html`${waitingSection(reasons, now)}<ol class="timeline">${events.map(event => renderEvent(event, hasSeveral, now))}</ol>
${replies.length === 0 ? null : section('Replies', mailTable(replies, now))}${recipients.map(recipient => {
	const own = <Row extends {readonly recipientId: string}>(rows: readonly Row[]) =>
		rows.filter(({recipientId}) => recipientId === recipient.id);
	return recipientSection(recipient, {reports: own(reports), engagement: own(engagement)}, now);
})}`;
}

function waitingSection(reasons: readonly Why[], now: number): Html | null {
	if (reasons.length === 0) {
		return null;
	}
	const hasSeveral = reasons.length > 1;
	const entries = reasons.map(why => {
		const queue = toHref(`/queue/${encodeURIComponent(why.destination)}`, new URLSearchParams());
		return html`${hasSeveral ? html`<h3>${name(why.address)}</h3>` : null}${reasonText(why, now)}${why.also.map(
			reason => reasonText({...reason, detail: `Also: ${reason.detail}`}, now),
		)}<p class="soft">Expires ${time(why.gives_up_at, now)}. <a href="${queue}">Queue of ${name(why.destination)}</a></p>`;
	});
	return section('Why it is waiting', html`<div class="card">${entries}</div>`);
}

function reasonText({detail, until, mend}: Pick<Reason, 'detail' | 'until' | 'mend'>, now: number): Html {
	const end = until !== null && Date.parse(until) > now ? html` (${time(until, now)})` : null;
	return html`<p>${name(detail)}${end}${mend === null ? null : html`<br><span class="soft">→ ${mend}</span>`}</p>`;
}

const tones: Readonly<Record<EventType, Tone>> = {
	accepted: 'idle',
	queued: 'idle',
	sent: 'idle',
	delivered: 'good',
	opened: 'good',
	clicked: 'good',
	bounced: 'bad',
	complained: 'bad',
	suppressed: 'warn',
	unsubscribed: 'warn',
	errored: 'bad',
};

function renderEvent(event: StoredEvent, showsRecipient: boolean, now: number): Html {
	const recipient = textOrNull(event.detail.recipient);
	const detail = eventText(event);
	return html`<li class="${tones[event.type]}"><strong>${event.type}</strong>${
		showsRecipient && recipient !== null ? html` ${name(recipient)}` : null
	} <span class="soft">${time(event.occurredAt, now)}</span>${detail === null ? null : html`<br>${name(detail)}`}</li>`;
}

type Feedback = {readonly reports: readonly StoredReport[]; readonly engagement: readonly EngagementCount[]};

function recipientSection(recipient: StoredRecipient, {reports, engagement}: Feedback, now: number): Html {
	const {attempts, role, address, state} = recipient;
	const parts = [
		...attempts.map(attempt => renderAttempt(attempt, now)),
		...reports.map(report => renderReport(report, now)),
		...(engagement.length === 0 ? [] : [html`<ul>${engagement.map(count => renderEngagement(count, now))}</ul>`]),
	];
	const none = state === 'delivered' ? 'Captured or simulated: no attempts.' : 'No attempts.';
	const content = parts.length > 0 ? join(parts) : html`<p class="soft">${none}</p>`;
	return html`<section><header class="part"><h2>${role} ${name(address)} ${stateBadge(state)}</h2></header>${content}</section>`;
}

function renderAttempt(attempt: StoredAttempt, now: number): Html {
	const {where, how, reply} = attemptText(attempt);
	const {n, at, dialogue} = attempt;
	const conversation =
		dialogue === null
			? null
			: html`<details><summary>SMTP dialogue</summary><pre>${lines(dialogue)}</pre></details>`;
	return html`<article class="card try"><h3>Attempt ${n}: ${name(where)}</h3><p class="soft">${time(at, now)}, ${how}</p><pre>${lines(
		reply.join('\n'),
	)}</pre>${conversation}</article>`;
}

function renderReport(report: StoredReport, now: number): Html {
	const {at, summary, notes, reason} = reportText(report);
	return html`<article class="card try"><h3>Report: ${name(summary)}</h3><p class="soft">${time(at, now)}${
		notes.length === 0 ? null : html`, ${name(notes.join(', '))}`
	}</p>${reason === '' ? null : html`<pre>${lines(reason)}</pre>`}</article>`;
}

function renderEngagement(count: EngagementCount, now: number): Html {
	const link = count.kind === 'clicked' ? html`<br>${name(count.url)}` : null;
	return html`<li>${engagementText(count)}, last ${time(count.lastAt, now)}${link}</li>`;
}
