import {parseDuration, storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import {type AlertKind, type AlertWay, alertKindNames, alertKinds, alertWays} from '../mail/alert.ts';
import {Type} from '../mail/type.ts';
import {type Alert, deleteAlert, findAlert, insertAlert, listAlerts, updateAlert} from '../store/alerts.ts';
import {notFound, operation, Refused, type Scene, unusable} from './operation.ts';

/** An alert with what is shown only now; null: it has no secret of ours. */
export type NewAlert = {readonly row: Alert; readonly secret: string | null};

const secretBytes = 32;
/** Of a workspace, and of the installation. */
const mostAlerts = 50;
const longestMuteMs = 30 * 86_400_000;
const id = Type.String({description: 'The alert.'});
const manages = {scope: 'alerts:manage', role: 'admin'} as const;
const apply = 'whom to wake is no part of a description of mail';

/** Throws `Refused` where the target cannot be used. `urlFault`: what is wrong with a URL that is posted to. */
export function checkTarget(
	urlFault: (url: string) => string | null,
	{way, target}: {readonly way: AlertWay; readonly target: string},
): void {
	const address = way === 'mail' ? parseAddress(target, {utf8Local: false}) : null;
	const fault = address === null ? urlFault(target) : address.ok ? null : address.fault;
	if (fault !== null) {
		throw unusable(way, fault);
	}
}

/** Without a workspace it is about the installation and every workspace; with one, about what belongs to that. */
export const addAlert = operation({
	...manages,
	fresh: true,
	name: 'alert add',
	without: {apply},
	input: Type.Object(
		{
			way: Type.Enum([...alertWays], {description: 'How its messages go.'}),
			target: Type.String({
				minLength: 3,
				maxLength: 2048,
				description: 'The address of a mail, or the URL that is posted to.',
			}),
			from: Type.Optional(
				Type.String({
					maxLength: 254,
					description: 'The sender of its mails; absent: mailctl at the installation’s host.',
				}),
			),
			on: Type.Optional(
				Type.Array(Type.Enum([...alertKindNames]), {minItems: 1, description: 'What it is about; absent: all.'}),
			),
		},
		{
			additionalProperties: false,
			examples: [{way: 'mail', target: 'ops@shop.example', on: ['domain_failed', 'webhook_dead']}],
		},
	),
	async run({trx, tools, workspaceId, vault}: Scene<string | null>, {way, target, from, on}): Promise<NewAlert> {
		checkKinds(workspaceId, on);
		checkSender(workspaceId, from);
		const others = await listAlerts(trx, workspaceId);
		if (others.filter(one => one.workspace_id === workspaceId).length >= mostAlerts) {
			const wrong = `there are ${mostAlerts} alerts already`;
			throw new Refused('conflict', {wrong, next: 'remove one first', api: `There are ${mostAlerts} alerts already.`});
		}
		const alertId = tools.newId('alr');
		const made = way === 'webhook' ? `whsec_${tools.random(secretBytes).toString('base64url')}` : null;
		const hidden = way === 'slack' ? target : made;
		const now = storeTime(tools.clock.now());
		const row: Alert = {
			...{id: alertId, workspace_id: workspaceId, way},
			target: way === 'slack' ? `${new URL(target).origin}/…` : target,
			secret: hidden === null ? null : (await vault()).seal(alertId, hidden),
			...{sender: from ?? null, kinds: on === undefined ? null : [...new Set(on)], muted_until: null},
			...{digest_at: now, sent_at: null, error: null, created_at: now},
		};
		await insertAlert(trx, row);
		return {row, secret: made};
	},
	audit: 'alert.added',
	entry: ({row: {id: target, way, kinds}}) => ({target, detail: {way, kinds}}),
	refreshes: false,
});

function checkKinds(workspaceId: string | null, on: readonly AlertKind[] | undefined): void {
	const foreign = workspaceId === null ? undefined : on?.find(kind => !alertKinds[kind].ofWorkspace);
	if (foreign !== undefined) {
		throw unusable(
			'on',
			`must not name ${foreign}, which is about the installation: mailctl alert add without a workspace`,
		);
	}
}

/** Only an operator may mail in the name of others. */
function checkSender(workspaceId: string | null, from: string | undefined): void {
	if (from === undefined) {
		return;
	}
	const parsed = parseAddress(from, {utf8Local: false});
	if (!parsed.ok) {
		throw unusable('from', parsed.fault);
	}
	if (workspaceId !== null) {
		throw unusable('from', 'must not be set for the alert of a workspace');
	}
}

/** It sends nothing for a while; what lasts then comes with its next digest. */
export const muteAlert = operation({
	...manages,
	name: 'alert mute',
	without: {apply},
	input: Type.Object(
		{id, for: Type.String({description: 'How long, such as 30m, 2h or 3d; 0 ends it. At most 30d.'})},
		{additionalProperties: false, examples: [{for: '2h'}]},
	),
	async run({trx, tools, workspaceId}: Scene<string | null>, {id: wanted, for: text}): Promise<Alert> {
		const row = (await findAlert(trx, workspaceId, wanted)) ?? notFound('alert', wanted);
		const span = parseDuration(text);
		if (span === undefined || span > longestMuteMs) {
			throw unusable('for', 'must be a duration such as 30m, 2h or 3d, at most 30d');
		}
		const muted_until = span === 0 ? null : storeTime(tools.clock.now() + span);
		await updateAlert(trx, wanted, {muted_until});
		return {...row, muted_until};
	},
	audit: 'alert.muted',
	entry: ({id: target, muted_until: until}) => ({target, detail: {until}}),
	refreshes: false,
});

export const removeAlert = operation({
	...manages,
	fresh: true,
	name: 'alert remove',
	without: {apply},
	input: Type.Object({id}),
	async run({trx, workspaceId}: Scene<string | null>, {id: wanted}): Promise<Alert> {
		const row = (await findAlert(trx, workspaceId, wanted)) ?? notFound('alert', wanted);
		await deleteAlert(trx, wanted);
		return row;
	},
	audit: 'alert.removed',
	entry: ({id: target, way}) => ({target, detail: {way}}),
	refreshes: false,
});
