import type {Knex} from 'knex';
import {groupBy} from '../../kit/collections.ts';
import {dayMs, hourMs, parseDuration, storeTime} from '../../kit/time.ts';
import {parseAddress} from '../../mail/address.ts';
import {type AlertChannel, type AlertKind, alertChannels, alertKindNames, alertKinds} from '../../mail/alert.ts';
import {Type} from '../../mail/type.ts';
import {field} from '../fields.ts';
import {type InputOf, notFound, type OperationContext, operation, Refused, refuseField} from '../operation.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {type AddressStatus, confirmAddress, readAddressStatuses, takeAllowance} from './addresses-store.ts';
import {type Alert, countOwnAlerts, deleteAlert, findAlert, insertAlert, queueMessage, updateAlert} from './store.ts';

/** An alert and the status of its address. Webhooks and the installation's own alerts are always `active`. */
export type ShownAlert = Alert & {readonly status: AddressStatus};

/** A new alert and its signing secret, which is shown only once. `secret` is `null` unless it is a webhook. */
export type NewAlert = {readonly row: ShownAlert; readonly secret: string | null};

const secretBytes = 32;
/** Applies to the installation's own alerts. Those of a workspace count against its limits. */
const maxOwnAlerts = 50;
const maxMuteMs = 30 * 86_400_000;
const id = Type.String({description: 'The alert.'});
const manages = {scope: 'alerts:manage', role: 'admin'} as const;
const apply = 'who receives alerts is not part of the mail setup';
const vouching = 'only operators of the installation can vouch for an address';
const vouches = {role: 'admin', everywhere: true, without: {apply, api: vouching, dashboard: vouching}} as const;
const testsPerHour = 5;
const confirmationsPerWorkspace = 10;
const confirmationsPerAddress = 3;

/** Throws `Refused` if the target is invalid. `urlProblem` returns the problem with a URL, or `null`. */
export function checkTarget(
	urlProblem: (url: string) => string | null,
	{way, target}: {readonly way: AlertChannel; readonly target: string},
): void {
	const address = way === 'mail' ? parseAddress(target, {allowsUtf8Local: false}) : null;
	const problem = address === null ? urlProblem(target) : address.ok ? null : address.problem;
	if (problem !== null) {
		throw refuseField(way, problem);
	}
}

const newAlertInput = Type.Object(
	{
		way: Type.Enum([...alertChannels], {description: 'How the alert is sent.'}),
		target: Type.String({
			minLength: 3,
			maxLength: 2048,
			description: 'The email address, or the URL to post to.',
		}),
		from: field(Type.Optional(Type.String({maxLength: 254})), {
			option: 'from <address>',
			description: 'The sender address of the alert’s email. Default: mailctl at the installation’s host.',
			help: 'The sender address of the alert’s email.',
			default: 'mailctl at the installation’s host',
		}),
		on: field(Type.Optional(Type.Array(Type.Enum([...alertKindNames]), {minItems: 1})), {
			option: 'on <kinds>',
			description: 'The alert types. Default: all.',
			help: 'The alert types.',
			default: 'all',
		}),
	},
	{
		additionalProperties: false,
		examples: [{way: 'mail', target: 'ops@shop.example', on: ['domain_failed', 'webhook_dead']}],
	},
);

const newAlert = {
	name: 'alert add',
	seals: true,
	input: newAlertInput,
	audit: 'alert.added',
	entry: ({row: {id: target, way, kinds}}: NewAlert) => ({target, detail: {way, kinds}}),
	refreshes: false,
} as const;

/** Adds an alert for the given workspace, or for the installation and all workspaces if none is given. */
export const addAlert = operation({
	...newAlert,
	...manages,
	fresh: true,
	without: {apply},
	run: (context: OperationContext<string | null>, input) => add(context, input, false),
});

/** Adds an alert whose address an operator of the installation vouches for, so that no confirmation is needed. */
export const addVouchedAlert = operation({
	...newAlert,
	...vouches,
	run: (context: OperationContext<string | null>, input) => add(context, input, true),
});

async function add(
	context: OperationContext<string | null>,
	{way, target, from, on}: InputOf<typeof newAlertInput>,
	isVouched: boolean,
): Promise<NewAlert> {
	const {trx, tools, workspaceId, vault} = context;
	checkKinds(workspaceId, on);
	checkSender(workspaceId, from);
	await (workspaceId === null ? checkOwnRoom(trx) : checkRoom(trx, tools, workspaceId, 'alerts'));
	const alertId = tools.newId('alr');
	const generated = way === 'webhook' ? `whsec_${tools.random(secretBytes).toString('base64url')}` : null;
	const secret = way === 'slack' ? target : generated;
	const now = storeTime(tools.clock.now());
	const row: Alert = {
		id: alertId,
		workspace_id: workspaceId,
		way,
		target: way === 'slack' ? `${new URL(target).origin}/…` : target,
		secret: secret === null ? null : (await vault()).seal(alertId, secret),
		sender: from ?? null,
		kinds: on === undefined ? null : [...new Set(on)],
		muted_until: null,
		sent_at: null,
		error: null,
		created_at: now,
	};
	await insertAlert(trx, row);
	if (isVouched) {
		await vouchFor(trx, row, now);
	}
	const status = await readStatus(trx, row);
	if (status === 'unconfirmed') {
		await requestConfirmation(trx, tools, row);
	}
	return {row: {...row, status}, secret: generated};
}

/** Throws `Refused` if the installation has reached the limit of its own alerts. */
async function checkOwnRoom(trx: Knex.Transaction): Promise<void> {
	if ((await countOwnAlerts(trx)) >= maxOwnAlerts) {
		const wrong = `the installation may have at most ${maxOwnAlerts} alerts`;
		throw new Refused('conflict', {wrong, next: 'remove one first'});
	}
}

function checkKinds(workspaceId: string | null, on: readonly AlertKind[] | undefined): void {
	const foreign = workspaceId === null ? undefined : on?.find(kind => !alertKinds[kind].isPerWorkspace);
	if (foreign !== undefined) {
		throw refuseField(
			'on',
			`must not contain ${foreign}, which concerns the installation: add that alert without a workspace`,
		);
	}
}

/** Only operators of the installation may choose the sender of an alert, since any address can be entered. */
function checkSender(workspaceId: string | null, from: string | undefined): void {
	if (from === undefined) {
		return;
	}
	const parsed = parseAddress(from, {allowsUtf8Local: false});
	if (!parsed.ok) {
		throw refuseField('from', parsed.problem);
	}
	if (workspaceId !== null) {
		throw refuseField('from', 'must not be set for the alert of a workspace');
	}
}

/** Returns an alert's status. It depends on the address only for email alerts of a workspace. */
export async function readStatus(reader: Knex, alert: Alert): Promise<AddressStatus> {
	const [withStatus] = await withStatuses(reader, [alert]);
	return withStatus?.status ?? 'active';
}

/** Returns the alerts with their statuses, in the same order. */
export async function withStatuses(reader: Knex, alerts: readonly Alert[]): Promise<ShownAlert[]> {
	const mailed = groupBy(alerts.filter(isByMail), alert => alert.workspace_id ?? '');
	const statuses = new Map<string, Map<string, AddressStatus>>();
	for (const [workspaceId, group] of mailed) {
		statuses.set(workspaceId, await readAddressStatuses(reader, workspaceId, group.map(keyOf)));
	}
	const statusOf = (alert: Alert) => statuses.get(alert.workspace_id ?? '')?.get(keyOf(alert)) ?? 'active';
	return alerts.map(alert => ({...alert, status: statusOf(alert)}));
}

const isByMail = ({way, workspace_id: id}: Alert): boolean => way === 'mail' && id !== null;

/** Returns the normalized form of an alert's email address. */
function keyOf({target}: Alert): string {
	const parsed = parseAddress(target, {allowsUtf8Local: false});
	return parsed.ok ? parsed.address.key : target;
}

async function vouchFor(trx: Knex.Transaction, alert: Alert, now: string): Promise<void> {
	if (isByMail(alert)) {
		await confirmAddress(trx, [alert.workspace_id ?? '', keyOf(alert)], now);
	}
}

/**
 * Queues a message that asks the address for its consent, unless one was sent recently. Without this limit, anyone with
 * a workspace's key could mail a stranger repeatedly.
 */
async function requestConfirmation(
	trx: Knex.Transaction,
	{clock, newId}: OperationContext['tools'],
	alert: Alert,
): Promise<void> {
	const now = clock.now();
	const address = keyOf(alert);
	const allowances = [
		{name: `confirm ${alert.workspace_id} ${address}`, uses: 1},
		{name: `confirm ${address}`, uses: confirmationsPerAddress},
		{name: `confirm ${alert.workspace_id}`, uses: confirmationsPerWorkspace},
	];
	for (const allowance of allowances) {
		if ((await takeAllowance(trx, {...allowance, windowMs: dayMs}, now)) !== null) {
			return;
		}
	}
	const at = storeTime(now);
	await queueMessage(trx, alert.id, {id: newId('alm'), event: 'confirm', at, conditions: []});
}

/** Counts and records a test message, which the caller then sends. Asks an unconfirmed address for consent again. */
export const testAlert = operation({
	...manages,
	name: 'alert test',
	summary: 'Send a test message now',
	without: {apply},
	input: Type.Object({id}, {additionalProperties: false}),
	async run({trx, tools, workspaceId}: OperationContext<string | null>, {id: alertId}): Promise<Alert> {
		const row = (await findAlert(trx, workspaceId, alertId)) ?? notFound('alert', alertId);
		if (row.workspace_id !== null) {
			const tests = {name: `test ${row.workspace_id}`, uses: testsPerHour, windowMs: hourMs};
			const waitMs = await takeAllowance(trx, tests, tools.clock.now());
			if (waitMs !== null) {
				throw tooManyTests(waitMs);
			}
		}
		if ((await readStatus(trx, row)) === 'unconfirmed') {
			await requestConfirmation(trx, tools, row);
		}
		return row;
	},
	audit: 'alert.tested',
	entry: ({id: target, way}) => ({target, detail: {way}}),
	refreshes: false,
});

function tooManyTests(waitMs: number): Refused {
	return new Refused('rate_limited', {
		wrong: `the workspace has used its ${testsPerHour} alert tests for this hour`,
		next: `try again in ${Math.ceil(waitMs / 60_000)} min`,
		api: `A workspace can test its alerts ${testsPerHour} times an hour.`,
		retryAfterMs: waitMs,
	});
}

/** Marks the address of an alert as confirmed, because an operator of the installation vouches for it. */
export const verifyAlert = operation({
	...vouches,
	name: 'alert verify',
	summary: 'Mark the address of an alert as confirmed',
	input: Type.Object({id}),
	async run({trx, tools, workspaceId}: OperationContext<string | null>, {id: alertId}): Promise<ShownAlert> {
		const row = (await findAlert(trx, workspaceId, alertId)) ?? notFound('alert', alertId);
		await vouchFor(trx, row, storeTime(tools.clock.now()));
		return {...row, status: await readStatus(trx, row)};
	},
	audit: 'alert.verified',
	entry: ({id: target}) => ({target}),
	refreshes: false,
});

/**
 * Returns why a message must not be sent to the alert's address, or `null`. Checked for each message, because the
 * domain or user may have been removed, or the address suppressed, since the alert was added.
 */
export async function findMailRefusal(reader: Knex, alert: Alert, isConfirmation: boolean): Promise<string | null> {
	const status = await readStatus(reader, alert);
	if (status === 'suppressed') {
		return `${alert.target} is on the suppression list of the workspace`;
	}
	if (status === 'unconfirmed' && !isConfirmation) {
		return `${alert.target} has not agreed to these alerts`;
	}
	const workspace = isConfirmation ? await findWorkspace(reader, alert.workspace_id ?? '') : undefined;
	return workspace?.paused_at ? 'the workspace is paused' : null;
}

/** Stops an alert from sending messages for the given time. */
export const muteAlert = operation({
	...manages,
	name: 'alert mute',
	summary: 'Mute an alert for a while',
	without: {apply},
	input: Type.Object(
		{
			id,
			for: field(Type.String(), {
				option: 'for <duration>',
				description: 'A duration such as 30m, 2h or 3d, at most 30d. 0 unmutes the alert.',
			}),
		},
		{additionalProperties: false, examples: [{for: '2h'}]},
	),
	async run(
		{trx, tools, workspaceId}: OperationContext<string | null>,
		{id: alertId, for: text},
	): Promise<ShownAlert> {
		const row = (await findAlert(trx, workspaceId, alertId)) ?? notFound('alert', alertId);
		const durationMs = parseDuration(text);
		if (durationMs === undefined || durationMs > maxMuteMs) {
			throw refuseField('for', 'must be a duration such as 30m, 2h or 3d, at most 30d');
		}
		const muted_until = durationMs === 0 ? null : storeTime(tools.clock.now() + durationMs);
		await updateAlert(trx, alertId, {muted_until});
		return {...row, muted_until, status: await readStatus(trx, row)};
	},
	audit: 'alert.muted',
	entry: ({id: target, muted_until: until}) => ({target, detail: {until}}),
	refreshes: false,
});

export const removeAlert = operation({
	...manages,
	fresh: true,
	name: 'alert remove',
	summary: 'Remove an alert',
	without: {apply},
	input: Type.Object({id}),
	async run({trx, workspaceId}: OperationContext<string | null>, {id: alertId}): Promise<Alert> {
		const row = (await findAlert(trx, workspaceId, alertId)) ?? notFound('alert', alertId);
		await deleteAlert(trx, alertId);
		return row;
	},
	audit: 'alert.removed',
	entry: ({id: target, way}) => ({target, detail: {way}}),
	refreshes: false,
});
