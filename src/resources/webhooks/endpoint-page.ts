import {sinceOf} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	copyable,
	count,
	dangerItem,
	disclosure,
	facts,
	join,
	menu,
	section,
	select,
	time,
} from '../../dashboard/markup.ts';
import {checkTyped, operationForms, pageForms, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {ConcurrencyLimit} from '../../kit/turns.ts';
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
	testAdvice,
} from './rules.ts';
import {type Endpoint, endpointState} from './store.ts';

/** The maximum number of concurrent tests per workspace. */
const maxTests = 4;

/** The pages of an endpoint: its state, its deliveries and its signing secret. */
export function endpointPages(parts: DashboardParts): readonly Route[] {
	const {reader, vault, webhooks} = parts;
	const seats = new ConcurrencyLimit(maxTests);
	const findChosen = (visit: Visit) => chosenEndpoint(reader, visit);

	/** Renders the page, with the result of a test if there is one. */
	async function show(visit: Visit, problem: string | null = null, testResult: Html | null = null): Promise<Answer> {
		const {may, now} = visit;
		const endpoint = await findChosen(visit);
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
				...(testResult ? [testResult] : []),
				live(
					'state',
					`/webhooks/${id}`,
					join([
						...(isDamaged ? [notice(damagedText)] : []),
						...(endpointState(endpoint) === 'failing' && !testResult ? [notice(failingText)] : []),
						html`<div class="card">${facts([
							['State', endpointBadge(endpoint, isDamaged)],
							['Failing since', failingSince && time(failingSince, now)],
							['Events', events.join(', ')],
							['Format', format],
							['Retry', retry],
							['Disabled by mailctl', endpoint.disabledReason],
							['Messages', mode === 'test' ? 'test messages only' : null],
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
		const endpoint = await findChosen(visit);
		if (signingSecret(vault, endpoint) === null) {
			rejectForm(damagedText);
		}
		const release = seats.take(endpoint.workspaceId);
		if (release === undefined) {
			rejectForm('Other tests of this workspace are running. Try again in a moment.');
		}
		const {status, error, ms} = await webhooks.postExample(endpoint).finally(release);
		const outcome = `${answerText(status, error)} after ${Math.round(ms)} ms`;
		const testResult =
			error === null
				? html`<p class="notice good" role="status">The test event was acknowledged: the endpoint ${outcome}.</p>`
				: html`<p class="notice bad" role="alert">The test event was not acknowledged: ${
						status === null ? outcome : `the endpoint ${outcome}`
					}. What to do: ${testAdvice(endpoint.url, status)}.</p>`;
		return await show(visit, null, testResult);
	}

	function readReplay({form, now, params: {id = ''}}: Visit): InputOf<typeof replaySince.input> {
		const since = sinceOf(form.get('hours'), now) ?? rejectForm('Choose how far back to replay deliveries.');
		const event = webhookEventTypes.find(type => type === form.get('event'));
		const status = stateOf(form.get('state'));
		return {endpoint: id, since, ...(event && {event}), ...(status && {status})};
	}

	function replayed(n: number, {params: {id = ''}}: Visit): Answer {
		webhooks.reportDue([id]);
		return go(`/webhooks/${id}`, `Deliveries being posted again: ${count(n)}.`);
	}

	async function secretPage(visit: Visit): Promise<Answer> {
		const endpoint = await findChosen(visit);
		const {id, url} = endpoint;
		const secret = signingSecret(vault, endpoint);
		const until = oldSecretExpiry(endpoint, visit.now);
		return {
			kind: 'page',
			place: 'webhooks',
			title: 'Signing secret',
			content: facts([
				['Secret', secret === null ? damagedText : copyable(secret, 'the secret')],
				['Endpoint', html`<a href="/webhooks/${id}">${url}</a>`],
				['Old secret expires', until && time(until, visit.now)],
			]),
		};
	}

	const path = '/webhooks/:id';
	const to =
		(notice: string) =>
		(_result: unknown, {params}: Visit) =>
			go(`/webhooks/${params.id}`, notice);
	const form = operationForms(parts, {path, show});
	return [
		page(path, show),
		pageForms(show)(`${path}/test`, 'operator', test),
		form(changeEndpoint, `${path}/change`, to('Endpoint changed.'), {
			read: visit => ({...readEndpoint(visit, webhooks.guard), id: visit.params.id ?? ''}),
		}),
		form(enableEndpoint, `${path}/enable`, to('Endpoint enabled. Pending events are being posted.')),
		form(disableEndpoint, `${path}/disable`, to('Endpoint disabled. It receives no events.')),
		form(removeEndpoint, `${path}/remove`, () => go('/webhooks', 'Endpoint removed.'), {
			before: async visit =>
				checkTyped(visit, 'remove', 'Nothing was removed: type remove to remove the endpoint.'),
		}),
		form(replaySince, `${path}/replay`, replayed, {read: readReplay}),
		{method: 'GET', path: `${path}/secret`, role: 'admin', fresh: true, answer: secretPage},
		form(rotateSecret, `${path}/rotate`, ({id}) =>
			go(`/webhooks/${id}/secret`, 'The endpoint has a new secret. Configure your program to use it now.'),
		),
	];
}

const failingText =
	'The last attempt failed. Each delivery has five attempts. Once your program works again, replay the exhausted ones.';
const damagedText = 'The stored secret is damaged, so nothing is posted. Rotate the secret.';
const notice = (text: string): Html => html`<p class="notice warn">${text}</p>`;

function adminActions(visit: Visit, endpoint: Endpoint, hasProblem: boolean): Html[] {
	const {id, disabledAt} = endpoint;
	const about = 'Its deliveries are removed as well, and nothing more is posted to it.';
	const removal = {to: `/webhooks/${id}/remove`, label: 'Remove endpoint', about, typed: 'remove'};
	return [
		...(hasProblem ? [] : [disclosure('Change', html`<div class="stack">${changeForm(visit, endpoint)}</div>`)]),
		disabledAt === null
			? act({to: `/webhooks/${id}/disable`, label: 'Disable', look: 'quiet'})
			: act({to: `/webhooks/${id}/enable`, label: 'Enable', look: 'quiet'}),
		menu([dangerItem(removal)]),
	];
}

function changeForm({form}: Visit, endpoint: Endpoint): Html {
	return endpointForm(`/webhooks/${endpoint.id}/change`, 'Save', form, endpoint);
}

const overlaps = [
	{value: '0', label: 'expires now'},
	{value: '1h', label: 'expires in 1 hour'},
	{value: '24h', label: 'expires in 24 hours'},
	{value: '7d', label: 'expires in 7 days'},
	{value: '30d', label: 'expires in 30 days'},
];

/** The secret itself has a separate page, which requires a recent sign-in. */
function secretSection({now}: Visit, endpoint: Endpoint): Html {
	const {id} = endpoint;
	const until = oldSecretExpiry(endpoint, now);
	const fields = select({name: 'overlap', label: 'The old secret', value: '24h'}, overlaps);
	const content = html`<p class="soft">Your program uses it to verify that requests come from mailctl.${
		until && html` The old secret expires ${time(until, now)}.`
	}</p>`;
	const rotation = disclosure('Rotate', act({to: `/webhooks/${id}/rotate`, label: 'Create a new secret', fields}));
	const actions = html`<div class="actions"><a class="button" href="/webhooks/${id}/secret">Show</a>${rotation}</div>`;
	return section('Signing secret', content, actions);
}

/** Returns when the old secret stops signing, or `null` if only the current one signs. */
const oldSecretExpiry = ({previousUntil}: Endpoint, now: number): string | null =>
	previousUntil !== null && previousUntil > storeTime(now) ? previousUntil : null;
