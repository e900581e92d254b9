import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {readBranding, writeBranding} from '../../mail/branding.ts';
import type {ActTools} from '../../mail/operator.ts';
import {withPasswords} from '../../mail/route.ts';
import {changeLimits} from '../../mail/workspace-limits.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {forgetFigures} from '../../store/reputation.ts';
import type {Vault} from '../../store/sealed.ts';
import {recordAct} from '../audit/store.ts';
import {Refused} from '../operation.ts';
import {lookUpTopic} from '../topics/store.ts';
import type {WorkspaceFields} from './settings.ts';
import {
	findWorkspace,
	findWorkspaceByName,
	insertWorkspace,
	updateWorkspace,
	type Workspace,
	type WorkspaceChanges,
} from './store.ts';

/** The input of a workspace. Its route is not sealed yet: it has unencrypted passwords. */
export type WorkspaceInput = Omit<WorkspaceFields, 'route'> & {
	readonly route?: {readonly text: string; readonly vault: Pick<Vault, 'seal'>} | null;
};

// `src/resources` is the administration code that the API, the CLI and the dashboard share: workspaces, templates,
// webhooks, the queue, CSV files and human-readable texts. It relies on `src/store` for the data and on `operation.ts`
// for operations. Its functions run in the caller's transaction. They never check permissions: their callers do.

/** Creates a workspace. Returns `undefined` if the name is in use. */
export async function createWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	input: WorkspaceInput,
): Promise<Workspace | undefined> {
	const now = storeTime(tools.clock.now());
	const id = tools.newId('ws');
	const changes = toChanges(id, input, undefined, now);
	const workspace = await insertWorkspace(trx, {id, name: input.name, ...changes, created_at: now});
	if (!workspace) {
		return undefined;
	}
	await record(trx, tools, 'workspace.created', id, changes);
	await bumpGeneration(trx);
	return workspace;
}

/** Changes a workspace. Returns `undefined` if the new name is in use, and throws if the workspace does not exist. */
export async function changeWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	id: string,
	input: Partial<WorkspaceInput>,
): Promise<Workspace | undefined> {
	const namesake = input.name === undefined ? undefined : await findWorkspaceByName(trx, input.name);
	if (namesake && namesake.id !== id) {
		return undefined;
	}
	const before = await findWorkspace(trx, id);
	const changes = toChanges(id, input, before, storeTime(tools.clock.now()));
	if (Object.keys(changes).length > 0) {
		await record(trx, tools, 'workspace.updated', id, changes);
	}
	return await update(trx, id, changes);
}

/** Throws `Refused` if the new default topic does not exist in the workspace. */
export async function checkDefaultTopic(
	reader: Knex,
	id: string,
	{default_topic: code}: Partial<WorkspaceInput>,
): Promise<void> {
	if (code && !(await lookUpTopic(reader, id, code))) {
		throw new Refused('unprocessable_entity', {wrong: `topic ${code} not found`, next: 'see mailctl topic list'});
	}
}

type RetentionDays = Partial<Pick<WorkspaceInput, 'retention_days' | 'content_days'>>;

/** Throws `Refused` if the workspace would retain messages for more than `max` days. 0 means no limit. */
export function checkRetention({retention_days, content_days}: RetentionDays, max: number): void {
	if (max > 0 && Math.max(retention_days ?? 0, content_days ?? 0) > max) {
		throw new Refused('unprocessable_entity', {
			wrong: `the number of days exceeds MAILCTL_RETENTION_DAYS (${max})`,
			next: 'use a smaller number',
			page: `The installation retains messages for ${max} days. Enter a smaller number.`,
		});
	}
}

/**
 * Pauses a workspace on behalf of the installation: sends are refused and queued messages wait. Its own users cannot
 * resume it. Pausing it again retains the time of the first pause.
 */
export async function pauseByInstallation(
	trx: Knex.Transaction,
	tools: ActTools,
	workspace: Workspace,
	reason: string,
): Promise<Workspace> {
	const pausedAt = workspace.paused_at ?? storeTime(tools.clock.now());
	await record(trx, tools, 'workspace.paused', workspace.id, {reason});
	return await update(trx, workspace.id, {paused_at: pausedAt, pause_reason: reason, paused_by: null});
}

/** Whether the reputation guard or a user of all workspaces paused it, rather than one of its own users. */
export function isPausedByInstallation({paused_at: pausedAt, paused_by: pausedBy}: Workspace): boolean {
	return pausedAt !== null && pausedBy === null;
}

/**
 * Pauses a workspace on behalf of its own users. Returns `false` if the installation has already paused it or it does
 * not exist.
 */
export async function pauseByWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	id: string,
	reason: string,
): Promise<boolean> {
	const before = await findWorkspace(trx, id);
	if (!before || isPausedByInstallation(before)) {
		return false;
	}
	const workspace = await pauseByInstallation(trx, tools, before, reason);
	await update(trx, workspace.id, {paused_by: 'workspace'});
	return true;
}

/**
 * Resumes a workspace on behalf of its own users. Its reputation figures are unaffected. Returns `false` if the
 * installation has paused it or it does not exist.
 */
export async function resumeByWorkspace(trx: Knex.Transaction, tools: ActTools, id: string): Promise<boolean> {
	const before = await findWorkspace(trx, id);
	if (!before || isPausedByInstallation(before)) {
		return false;
	}
	if (before.paused_at !== null) {
		await record(trx, tools, 'workspace.resumed', id, {});
		await update(trx, id, {paused_at: null, pause_reason: null, paused_by: null});
	}
	return true;
}

/**
 * Resumes a workspace on behalf of the installation and resets its reputation figures to zero (R7.2). Does nothing if
 * the workspace is neither paused nor has a reputation warning. Otherwise a script that resumes it regularly would keep
 * resetting the figures, and the guard could never act.
 */
export async function resumeByInstallation(trx: Knex.Transaction, tools: ActTools, id: string): Promise<Workspace> {
	const before = await findWorkspace(trx, id);
	if (before && before.paused_at === null && before.reputation_warned_at === null) {
		return before;
	}
	await forgetFigures(trx, id);
	await record(trx, tools, 'workspace.resumed', id, {});
	return await update(trx, id, {
		paused_at: null,
		pause_reason: null,
		paused_by: null,
		reputation_since: storeTime(tools.clock.now()),
		reputation_warned_at: null,
	});
}

/** Adds an audit entry. A route may contain a relay's password, so only the fact that it changed is recorded. */
async function record(
	trx: Knex.Transaction,
	tools: ActTools,
	action: string,
	id: string,
	{route, ...detail}: Readonly<Record<string, unknown>>,
): Promise<void> {
	const routeDetail = route === undefined ? {} : {route: route === null ? null : 'its own'};
	await recordAct(trx, tools, {action, workspaceId: id, target: id, detail: {...detail, ...routeDetail}});
}

async function update(trx: Knex.Transaction, id: string, changes: WorkspaceChanges): Promise<Workspace> {
	if (Object.keys(changes).length > 0) {
		await updateWorkspace(trx, id, changes);
		await bumpGeneration(trx);
	}
	const workspace = await findWorkspace(trx, id);
	if (!workspace) {
		throw new Error(`The workspace ${id} does not exist.`);
	}
	return workspace;
}

function toChanges(
	id: string,
	{track_opens, track_clicks, queue_lifetime, route, branding, limits, ...columns}: Partial<WorkspaceInput>,
	before: Pick<Workspace, 'branding' | 'limits'> | undefined,
	now: string,
): WorkspaceChanges {
	return {
		...columns,
		...(queue_lifetime !== undefined && {queue_lifetime_s: queue_lifetime}),
		...(track_opens !== undefined && {track_opens_at: track_opens ? now : null}),
		...(track_clicks !== undefined && {track_clicks_at: track_clicks ? now : null}),
		...(route !== undefined && {
			route: route && withPasswords(route.text, password => route.vault.seal(id, password)),
		}),
		...(limits !== undefined && {limits: changeLimits(before?.limits ?? null, limits)}),
		...(branding !== undefined && {
			branding: writeBranding({...readBranding(before?.branding ?? null), ...branding}),
		}),
	};
}
