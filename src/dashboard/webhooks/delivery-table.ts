import {type Html, html} from '../../hosted/html.ts';
import type {DeliveryState} from '../../mail/webhook.ts';
import type {StoredDelivery} from '../../store/webhooks.ts';
import {badge, count, name, type Table, type Tone, time} from '../markup.ts';

/** How deliveries of an endpoint are listed. */
export function deliveryTable(to: string, now: number): Omit<Table<StoredDelivery>, 'rows' | 'empty'> {
	return {
		label: 'Deliveries',
		link: ({id}) => `${to}/deliveries/${id}`,
		columns: [
			{title: 'Recipient', cell: row => name(recipientOf(row)), cut: true},
			{title: 'Event', cell: ({eventType}) => eventType},
			{title: 'State', cell: ({state}) => deliveryBadge(state)},
			{title: 'Answer', cell: lastAnswer, cut: true, wide: true},
			{title: 'Attempts', cell: ({attempts}) => count(attempts), right: true, wide: true},
			{title: 'Created', cell: row => time(row.createdAt, now), right: true, wide: true},
		],
	};
}

const tones: Readonly<Record<DeliveryState, Tone>> = {
	pending: 'busy',
	delivered: 'good',
	failed: 'warn',
	exhausted: 'bad',
};

export const deliveryBadge = (state: DeliveryState): Html => badge(state, tones[state]);

/** What came back at the last attempt. */
export function lastAnswer({lastStatus, lastError}: Pick<StoredDelivery, 'lastStatus' | 'lastError'>): Html {
	return lastStatus === null && lastError === null
		? html`<span class="soft">not asked yet</span>`
		: html`${answerText(lastStatus, lastError)}`;
}

/** The status, or why it is missing. */
export const answerText = (status: number | null, error: string | null): string =>
	status === null ? (error ?? 'no answer') : `answered ${status}`;

/** The body is ours (`webhookBody`). */
export function recipientOf({body}: StoredDelivery): string {
	return (JSON.parse(Buffer.from(body).toString()) as {recipient: string}).recipient;
}
