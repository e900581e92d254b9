import {rotateSecret, signingSecret} from '../../admin/webhooks.ts';
import {type Html, html} from '../../hosted/html.ts';
import {hourMs, storeTime} from '../../kit/time.ts';
import {longestOverlap, usualOverlap} from '../../mail/webhook.ts';
import type {Endpoint} from '../../store/webhooks.ts';
import {act, copyable, facts, opened, section, select, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import type {EndpointPage} from './endpoint.ts';

const overlaps = [
	{value: '0', label: 'ends at once'},
	{value: String(hourMs), label: 'signs for 1 hour more'},
	{value: String(usualOverlap), label: 'signs for 24 hours more'},
	{value: String(7 * 24 * hourMs), label: 'signs for 7 days more'},
	{value: String(longestOverlap), label: 'signs for 30 days more'},
];

export const damagedText = 'What is stored is damaged, so nothing is posted. Rotate the secret.';

/** The secret itself is a page of its own, for those who logged in just now. */
export function secretSection({now}: Visit, {id, previousUntil}: Endpoint): Html {
	const fields = select({name: 'overlap', label: 'The old secret', value: String(usualOverlap)}, overlaps);
	const isOverlapping = previousUntil !== null && previousUntil > storeTime(now);
	const content = html`<p class="soft">Your program checks with it that a request is ours.${
		isOverlapping ? html` The old secret ends ${time(previousUntil, now)}.` : null
	}</p>`;
	const rotation = opened('Rotate', act({to: `/webhooks/${id}/rotate`, label: 'Make a new secret', fields}));
	const actions = html`<div class="actions"><a class="button" href="/webhooks/${id}/secret">Show</a>${rotation}</div>`;
	return section('Signing secret', content, actions);
}

export function secretPages({change, vault}: DashboardParts, {show, about}: EndpointPage): readonly Route[] {
	async function reveal({now}: Visit, endpoint: Endpoint): Promise<Answer> {
		const {id, url, previousUntil} = endpoint;
		const secret = signingSecret(vault, endpoint);
		const until = previousUntil !== null && previousUntil > storeTime(now) ? previousUntil : null;
		return {
			kind: 'page',
			place: 'webhooks',
			title: 'Signing secret',
			content: html`${facts([
				['Secret', secret === null ? damagedText : copyable(secret, 'the secret')],
				['Endpoint', html`<a href="/webhooks/${id}">${url}</a>`],
				['Old secret ends', until && time(until, now)],
			])}`,
		};
	}

	async function rotate(visit: Visit, endpoint: Endpoint): Promise<Answer> {
		const {id, workspaceId} = endpoint;
		const overlap = Number(visit.form.get('overlap') ?? Number.NaN);
		if (!(Number.isSafeInteger(overlap) && overlap >= 0 && overlap <= longestOverlap)) {
			return await show(visit, endpoint, {problem: 'Choose how long the old secret signs too.'});
		}
		await change(trx => rotateSecret(trx, visit.tools, vault, {workspaceId, id, overlap}));
		return go(`/webhooks/${id}/secret`, 'The endpoint has a new secret. Give it to your program now.');
	}

	return [
		{method: 'GET', path: '/webhooks/:id/secret', role: 'admin', fresh: true, answer: about(reveal)},
		{method: 'POST', path: '/webhooks/:id/rotate', role: 'admin', fresh: true, answer: about(rotate)},
	];
}
