import {sinceOf} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {act, copyable, count, facts, join, opened, section, select, time} from '../../dashboard/markup.ts';
import {checkTyped, operationForms, pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {Seats} from '../../kit/turns.ts';
import {webhookEventTypes} from '../../mail/message.ts';
import type {InputOf} from '../operation.ts';
import {answerText, deliveriesSection, stateOf} from './deliveries-page.ts';
import {chosenEndpoint, endpointBadge, endpointForm, readEndpoint} from './page.ts';
import {
	changeEndpoint,
	disableEndpoint,
	enableEndpoint,
	removeEndpoint,
	replaySince,
	rotateSecret,
	signingSecret,
} from './rules.ts';
import {type Endpoint, endpointState} from './store.ts';

/** Tests of one workspace, at once. */
const maxTests = 4;

/** The page of an endpoint: how it does, what was posted to it, its signing secret. */
export function endpointPages(parts: DashboardParts): readonly Route[] {
	const {reader, vault, webhooks} = parts;
	const seats = new Seats(maxTests);
	const chosen = (visit: Visit) => chosenEndpoint(reader, visit);

	/** `tested`: the result of a test. */
	async function show(visit: Visit, problem: string | null = null, tested: Html | null = null): Promise<Answer> {
		const {may, now} = visit;
		const endpoint = await chosen(visit);
		const {id, url, events, format, retry, mode, failingSince, createdAt} = endpoint;
		const isDamaged = signingSecret(vault, endpoint) === null;
		return {
			kind: 'page',
			problem,
			place: 'webhooks',
			title: plainName(url),
			actions: join([
				...(may('operator') ? [act({to: `/webhooks/${id}/test`, label: 'Send a test'})] : []),
				...(may('admin') ? adminActions(visit, endpoint, problem !== null) : []),
			]),
			content: join([
				...(tested ? [tested] : []),
				live(
					'state',
					`/webhooks/${id}`,
					join([
						...(isDamaged ? [notice(damagedText)] : []),
						...(endpointState(endpoint) === 'failing' && !tested ? [notice(failingText)] : []),
						html`<div class="card">${facts([
							['State', endpointBadge(endpoint, isDamaged)],
							['Failing since', failingSince && time(failingSince, now)],
							['Events', events.join(', ')],
							['Format', format],
							['Retry', retry],
							['Disabled by mailctl', endpoint.disabledReason],
							['Mail', mode === 'test' ? 'test mail alone' : null],
							['Added', time(createdAt, now)],
						])}</div>`,
					]),
				),
				...(problem !== null && visit.form.has('url')
					? [section('Change', html`<div class="card stack">${changeForm(visit, endpoint)}</div>`)]
					: []),
				await deliveriesSection(reader, visit, endpoint),
				...(may('admin') ? [secretSection(visit, endpoint)] : []),
			]),
		};
	}

	async function test(visit: Visit): Promise<Answer> {
		const endpoint = await chosen(visit);
		if (signingSecret(vault, endpoint) === null) {
			wrong(damagedText);
		}
		const leave = seats.take(endpoint.workspaceId);
		if (leave === undefined) {
			wrong('Other tests of this workspace are under way. Try again in a moment.');
		}
		const {status, error, ms} = await webhooks.postExample(endpoint).finally(leave);
		const said = `${answerText(status, error)} after ${Math.round(ms)} ms`;
		const tested =
			error === null
				? html`<p class="notice good" role="status">The test event was acknowledged: the endpoint ${said}.</p>`
				: html`<p class="notice bad" role="alert">The test event was not acknowledged: ${
						status === null ? said : `the endpoint ${said}`
					}. ${status === null ? 'Check the URL, its DNS and its certificate.' : 'It should answer 2xx: see the log of your program.'}</p>`;
		return await show(visit, null, tested);
	}

	function readReplay({form, now, params: {id = ''}}: Visit): InputOf<typeof replaySince.input> {
		const since = sinceOf(form.get('hours'), now) ?? wrong('Choose since when deliveries are replayed.');
		const event = webhookEventTypes.find(type => type === form.get('event'));
		const status = stateOf(form.get('state'));
		return {endpoint: id, since, ...(event && {event}), ...(status && {status})};
	}

	function replayed(n: number, {params: {id = ''}}: Visit): Answer {
		webhooks.reportDue([id]);
		return go(`/webhooks/${id}`, `Deliveries that are posted again now: ${count(n)}.`);
	}

	async function secretPage(visit: Visit): Promise<Answer> {
		const endpoint = await chosen(visit);
		const {id, url} = endpoint;
		const secret = signingSecret(vault, endpoint);
		const until = oldSecretEnds(endpoint, visit.now);
		return {
			kind: 'page',
			place: 'webhooks',
			title: 'Signing secret',
			content: facts([
				['Secret', secret === null ? damagedText : copyable(secret, 'the secret')],
				['Endpoint', html`<a href="/webhooks/${id}">${url}</a>`],
				['Old secret ends', until && time(until, visit.now)],
			]),
		};
	}

	const path = '/webhooks/:id';
	const to =
		(said: string) =>
		(_result: unknown, {params}: Visit) =>
			go(`/webhooks/${params.id}`, said);
	const form = operationForms(parts, {path, show});
	return [
		page(path, show),
		pageForms(show)(`${path}/test`, 'operator', test),
		form(changeEndpoint, `${path}/change`, to('The endpoint is changed.'), {
			read: visit => ({...readEndpoint(visit, webhooks.guard), id: visit.params.id ?? ''}),
		}),
		form(enableEndpoint, `${path}/enable`, to('The endpoint gets events again, also those that waited.')),
		form(disableEndpoint, `${path}/disable`, to('The endpoint gets no events.')),
		form(removeEndpoint, `${path}/remove`, () => go('/webhooks', 'The endpoint is removed.'), {
			before: async visit =>
				checkTyped(visit, 'remove', 'Nothing was removed: type remove to remove the endpoint.'),
		}),
		form(replaySince, `${path}/replay`, replayed, {read: readReplay}),
		{method: 'GET', path: `${path}/secret`, role: 'admin', fresh: true, answer: secretPage},
		form(rotateSecret, `${path}/rotate`, ({id}) =>
			go(`/webhooks/${id}/secret`, 'The endpoint has a new secret. Give it to your program now.'),
		),
	];
}

const failingText =
	'The last attempt failed. Each delivery is tried five times. Once your program works again, replay those that are exhausted.';
const damagedText = 'What is stored is damaged, so nothing is posted. Rotate the secret.';
const notice = (text: string): Html => html`<p class="notice warn">${text}</p>`;

function adminActions(visit: Visit, endpoint: Endpoint, isWrong: boolean): Html[] {
	const {id, disabledAt} = endpoint;
	return [
		...(isWrong ? [] : [opened('Change', html`<div class="stack">${changeForm(visit, endpoint)}</div>`)]),
		disabledAt === null
			? act({to: `/webhooks/${id}/disable`, label: 'Disable', look: 'quiet'})
			: act({to: `/webhooks/${id}/enable`, label: 'Enable', look: 'quiet'}),
		opened(
			'Remove',
			html`<p>Its deliveries go too, and nothing more is posted to it.</p>${act({
				to: `/webhooks/${id}/remove`,
				label: 'Remove the endpoint',
				look: 'danger',
				typed: 'remove',
			})}`,
		),
	];
}

function changeForm({form}: Visit, endpoint: Endpoint): Html {
	return endpointForm(`/webhooks/${endpoint.id}/change`, 'Save', form, endpoint);
}

const overlaps = [
	{value: '0', label: 'ends at once'},
	{value: '1h', label: 'signs for 1 hour more'},
	{value: '24h', label: 'signs for 24 hours more'},
	{value: '7d', label: 'signs for 7 days more'},
	{value: '30d', label: 'signs for 30 days more'},
];

/** The secret itself has a page of its own, which needs a log-in of the last minutes. */
function secretSection({now}: Visit, endpoint: Endpoint): Html {
	const {id} = endpoint;
	const until = oldSecretEnds(endpoint, now);
	const fields = select({name: 'overlap', label: 'The old secret', value: '24h'}, overlaps);
	const content = html`<p class="soft">Your program checks with it that a request is ours.${
		until && html` The old secret ends ${time(until, now)}.`
	}</p>`;
	const rotation = opened('Rotate', act({to: `/webhooks/${id}/rotate`, label: 'Make a new secret', fields}));
	const actions = html`<div class="actions"><a class="button" href="/webhooks/${id}/secret">Show</a>${rotation}</div>`;
	return section('Signing secret', content, actions);
}

/** Null: only the present secret signs. */
const oldSecretEnds = ({previousUntil}: Endpoint, now: number): string | null =>
	previousUntil !== null && previousUntil > storeTime(now) ? previousUntil : null;
