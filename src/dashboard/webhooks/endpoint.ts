import {changeEndpoint, removeEndpoint, setEndpointActive, signingSecret} from '../../admin/webhooks.ts';
import {createSeats} from '../../api/turns.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {type Endpoint, endpointState, findEndpoint} from '../../store/webhooks.ts';
import {live} from '../live.ts';
import {act, facts, join, opened, section, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';
import {deliveriesSection} from './deliveries.ts';
import {answerText} from './delivery-table.ts';
import {endpointForm, fieldsFault, typedFields} from './endpoint-form.ts';
import {endpointBadge} from './list.ts';
import {damagedText, secretSection} from './secret.ts';

/** Tests of one workspace, at once. */
const mostTests = 4;

export type EndpointPage = {
	/** The page again, with what was wrong with a form. */
	readonly show: (visit: Visit, endpoint: Endpoint, more?: {problem?: string; top?: Html}) => Promise<Answer>;
	/** An answer about the endpoint that a path names, in the visitor's workspace. */
	readonly about: (work: (visit: Visit, endpoint: Endpoint) => Promise<Answer>) => Route['answer'];
};

export function createEndpointPage({reader, change, vault, webhooks}: DashboardParts): EndpointPage & {
	readonly routes: readonly Route[];
} {
	const takeSeat = createSeats(mostTests);

	const show: EndpointPage['show'] = async (visit, endpoint, {problem, top} = {}) => {
		const {may, now} = visit;
		const {id, url, events, mode, failingSince, createdAt} = endpoint;
		const isDamaged = signingSecret(vault, endpoint) === null;
		return {
			kind: 'page',
			...(problem !== undefined && {status: 422, problem}),
			place: 'webhooks',
			title: plainName(url),
			actions: join([
				...(may('operator') ? [act({to: `/webhooks/${id}/test`, label: 'Send a test'})] : []),
				...(may('admin') ? adminActions(visit, endpoint, problem !== undefined) : []),
			]),
			content: join([
				...(top ? [top] : []),
				live(
					'state',
					`/webhooks/${id}`,
					join([
						...(isDamaged ? [notice(damagedText)] : []),
						...(endpointState(endpoint) === 'failing' && !top ? [notice(failingText)] : []),
						html`<div class="card">${facts([
							['State', endpointBadge(endpoint, isDamaged)],
							['Failing since', failingSince && time(failingSince, now)],
							['Events', events.join(', ')],
							['Mail', mode === 'test' ? 'test mail alone' : null],
							['Added', time(createdAt, now)],
						])}</div>`,
					]),
				),
				...(problem !== undefined && visit.form.has('url')
					? [section('Change', html`<div class="card stack">${changeForm(visit, endpoint)}</div>`)]
					: []),
				await deliveriesSection(reader, visit, endpoint),
				...(may('admin') ? [secretSection(visit, endpoint)] : []),
			]),
		};
	};

	const about: EndpointPage['about'] = work => async visit => {
		const {id = ''} = visit.params;
		const endpoint = isId('whe', id) ? await findEndpoint(reader, visit.workspace.id, id) : undefined;
		return endpoint ? await work(visit, endpoint) : missing('This workspace has no such endpoint.');
	};

	async function test(visit: Visit, endpoint: Endpoint): Promise<Answer> {
		if (signingSecret(vault, endpoint) === null) {
			return await show(visit, endpoint, {problem: damagedText});
		}
		const leave = takeSeat(endpoint.workspaceId);
		if (leave === undefined) {
			return await show(visit, endpoint, {
				problem: 'Other tests of this workspace are under way. Try again in a moment.',
			});
		}
		const {status, error, ms} = await webhooks.postExample(endpoint).finally(leave);
		const said = `${answerText(status, error)} after ${Math.round(ms)} ms`;
		const top =
			error === null
				? html`<p class="notice good" role="status">The test event was acknowledged: the endpoint ${said}.</p>`
				: html`<p class="notice bad" role="alert">The test event was not acknowledged: ${
						status === null ? said : `the endpoint ${said}`
					}. ${status === null ? 'Check the URL, its DNS and its certificate.' : 'It should answer 2xx: see the log of your program.'}</p>`;
		return await show(visit, endpoint, {top});
	}

	async function edit(visit: Visit, endpoint: Endpoint): Promise<Answer> {
		const {id, workspaceId} = endpoint;
		const fields = typedFields(visit.form);
		const problem = fieldsFault(fields, webhooks.guard);
		if (problem !== null) {
			return await show(visit, endpoint, {problem});
		}
		await change(trx => changeEndpoint(trx, visit.tools, {workspaceId, id, ...fields}));
		return go(`/webhooks/${id}`, 'The endpoint is changed.');
	}

	const turn = (active: boolean) =>
		about(async ({tools}, {id, workspaceId}) => {
			await change(trx => setEndpointActive(trx, tools, workspaceId, id, active));
			const said = active ? 'The endpoint gets events again, also those that waited.' : 'The endpoint gets no events.';
			return go(`/webhooks/${id}`, said);
		});

	async function remove(visit: Visit, endpoint: Endpoint): Promise<Answer> {
		if (visit.form.get('typed') !== 'remove') {
			return await show(visit, endpoint, {problem: 'Nothing was removed: type remove to remove the endpoint.'});
		}
		await change(trx => removeEndpoint(trx, visit.tools, endpoint.workspaceId, endpoint.id));
		return go('/webhooks', 'The endpoint is removed.');
	}

	const routes: readonly Route[] = [
		{method: 'GET', path: '/webhooks/:id', role: 'viewer', answer: about((visit, endpoint) => show(visit, endpoint))},
		{method: 'POST', path: '/webhooks/:id/test', role: 'operator', answer: about(test)},
		{method: 'POST', path: '/webhooks/:id/change', role: 'admin', answer: about(edit)},
		{method: 'POST', path: '/webhooks/:id/enable', role: 'admin', answer: turn(true)},
		{method: 'POST', path: '/webhooks/:id/disable', role: 'admin', answer: turn(false)},
		{method: 'POST', path: '/webhooks/:id/remove', role: 'admin', fresh: true, answer: about(remove)},
	];
	return {show, about, routes};
}

const failingText =
	'The last attempt failed. Each delivery is tried five times. Once your program works again, replay those that are exhausted.';
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
	const fields = form.has('url') ? typedFields(form) : endpoint;
	return endpointForm(`/webhooks/${endpoint.id}/change`, 'Save', fields);
}
