import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {apiTime} from '../../kit/time.ts';
import {alertChannels, alertKindNames} from '../../mail/alert.ts';
import {apiError} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {textOrNull, time} from '../page-schema.ts';
import {alertView} from '../views.ts';
import {addAlert, checkTarget, muteAlert, removeAlert, type ShownAlert, testAlert, withStatuses} from './rules.ts';
import {findAlert, listAlerts} from './store.ts';

const timeOrNull = Type.Union([time, Type.Null()]);
const fields = {
	id: Type.String(),
	way: Type.Enum([...alertChannels]),
	target: Type.String({description: 'The address or URL. Only the host of a Slack URL is shown.'}),
	status: Type.Enum(['active', 'unconfirmed', 'suppressed'], {
		description:
			'`unconfirmed`: the address has not agreed to alerts yet and receives none. `suppressed`: it is on the suppression list and receives none.',
	}),
	from: Type.Union([Type.String(), Type.Null()]),
	on: Type.Union([Type.Array(Type.Enum([...alertKindNames])), Type.Null()], {
		description: 'The kinds of alert that it receives; `null` for all.',
	}),
	error: textOrNull('Why the last attempt to send failed; `null` if it succeeded.'),
	muted_until: timeOrNull,
	last_sent_at: timeOrNull,
	created_at: time,
};
const example = {
	id: 'alr_01kaxq7w0c8m2v5t9d3f6h1j4n',
	way: 'mail',
	target: 'ops@shop.example',
	status: 'active',
	from: null,
	on: ['domain_failed', 'webhook_dead'],
	error: null,
	muted_until: null,
	last_sent_at: null,
	created_at: '2026-06-09T10:15:30+00:00',
};
const alertSchema = Type.Object(fields, {examples: [example]});
const secret = textOrNull('Signs its requests in the same way as webhooks; `null` if it does not post to a webhook.');
const newAlertSchema = Type.Object({...fields, secret}, {examples: [{...example, secret: null}]});
const testSchema = Type.Object({sent: Type.Boolean(), error: fields.error}, {examples: [{sent: true, error: null}]});

const toView = (row: ShownAlert) => alertView(row, apiTime);

const createAlertRoute = operationRoute(addAlert, {
	endpoint: 'POST /v1/alerts',
	tag: 'Alerts',
	summary: 'Add an alert',
	description:
		'Covers what belongs to the workspace: its domains, endpoints, relays and pauses. The secret is shown only in this response. A workspace may have at most 50 alerts. Users of the workspace and addresses in its verified domains receive alerts at once. Any other address first receives a confirmation link.',
	answer: [201, 'The alert.', newAlertSchema],
	errors: ['conflict', 'unprocessable_entity'],
	check: (input, {webhooks}) =>
		checkTarget(url => webhooks.guard.urlProblem(url), input as Parameters<typeof checkTarget>[1]),
	view: ({row, secret}) => ({...toView(row), secret}),
});

const listAlertsRoute = listRoute({
	path: '/v1/alerts',
	scope: 'alerts:manage',
	name: 'alerts',
	tag: 'Alerts',
	summary: 'List alerts',
	description: 'Lists the alerts of the workspace. The installation may have others.',
	meaning: 'Alerts, newest first.',
	defaultLimit: 100,
	item: alertSchema,
	find: ({workspaceId}, {reader}) => ({
		async read({after, limit}) {
			const alerts = await listAlerts(reader, workspaceId);
			const rows = alerts.filter(({id}) => after === null || id < after).slice(0, limit);
			return await withStatuses(reader, rows);
		},
	}),
	view: toView,
});

const getAlertRoute = apiRoute({
	endpoint: 'GET /v1/alerts/:id',
	id: 'alr',
	scope: 'alerts:manage',
	tag: 'Alerts',
	summary: 'Get an alert',
	answer: [200, 'The alert.', alertSchema],
	handle: async ({workspaceId, id}, parts) => toView(await requireAlert(parts, workspaceId, id)),
});

const testAlertRoute = operationRoute(testAlert, {
	endpoint: 'POST /v1/alerts/:id/test',
	id: 'alr',
	tag: 'Alerts',
	summary: 'Test an alert',
	description:
		'Sends a test message and waits for the result. The body may be omitted. A workspace may run five tests an hour. An unconfirmed address receives its confirmation message again instead, at most once a day.',
	answer: [200, 'Whether the test was sent.', testSchema],
	isBodyOptional: true,
	async view(alert, parts) {
		const error = await parts.testAlert(alert);
		return {sent: error === null, error};
	},
});

const muteAlertRoute = operationRoute(muteAlert, {
	endpoint: 'POST /v1/alerts/:id/mute',
	id: 'alr',
	tag: 'Alerts',
	summary: 'Mute an alert',
	description: 'Pauses the alert for a while.',
	answer: [200, 'The alert.', alertSchema],
	errors: ['unprocessable_entity'],
	view: toView,
});

const deleteAlertRoute = operationRoute(removeAlert, {
	endpoint: 'DELETE /v1/alerts/:id',
	id: 'alr',
	tag: 'Alerts',
	summary: 'Remove an alert',
	description: 'Stops the alert for good.',
	answer: [204, 'The alert was removed.', null],
});

/** The routes of /v1/alerts: who is notified of problems in the workspace. */
export const alertRoutes: readonly Route[] = [
	createAlertRoute,
	listAlertsRoute,
	getAlertRoute,
	testAlertRoute,
	muteAlertRoute,
	deleteAlertRoute,
];

async function requireAlert({reader}: ApiParts, workspaceId: string, id: string): Promise<ShownAlert> {
	const alert = await findAlert(reader, workspaceId, id);
	const [row] = alert ? await withStatuses(reader, [alert]) : [];
	if (!row) {
		throw apiError('not_found');
	}
	return row;
}
