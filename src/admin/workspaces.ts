import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {type Branding, readBranding, writeBranding} from '../mail/branding.ts';
import type {ActTools} from '../mail/operator.ts';
import {withPasswords} from '../mail/route.ts';
import {changeLimits, type LimitName} from '../mail/workspace-limits.ts';
import {Refused} from '../ops/operation.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {forgetFigures} from '../store/reputation.ts';
import type {Vault} from '../store/sealed.ts';
import {lookUpTopic} from '../store/topics.ts';
import {
	findWorkspace,
	findWorkspaceByName,
	insertWorkspace,
	updateWorkspace,
	type Workspace,
	type WorkspaceChanges,
} from '../store/workspaces.ts';

/** What people set of a workspace; null takes it back. */
export type WorkspaceInput = Pick<Workspace, 'name'> &
	Partial<
		Pick<
			Workspace,
			| ('locale' | 'timezone' | 'monthly_quota' | 'queue_lifetime_s' | 'source_pool' | 'default_topic')
			| ('retention_days' | 'content_days' | 'max_attachments' | 'max_attachment_bytes')
		>
	> & {
		readonly track_opens?: boolean;
		readonly track_clicks?: boolean;
		/** As `parseRoute` reads it, passwords open. */
		readonly route?: {readonly text: string; readonly vault: Pick<Vault, 'seal'>} | null;
		/** How its hosted pages look; what is left out stays as it is. */
		readonly branding?: Partial<Branding>;
		/** How many of each thing it may have; what is left out stays, null is the default. */
		readonly limits?: {readonly [Name in LimitName]?: number | null};
	};

/** Undefined: the name is taken. */
export async function createWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	input: WorkspaceInput,
): Promise<Workspace | undefined> {
	const now = storeTime(tools.clock.now());
	const id = tools.newId('ws');
	const changes = changesOf(id, input, undefined, now);
	const workspace = await insertWorkspace(trx, {id, name: input.name, ...changes, created_at: now});
	if (!workspace) {
		return undefined;
	}
	await record(trx, tools, 'workspace.created', id, changes);
	await bumpGeneration(trx);
	return workspace;
}

/** Undefined: the new name is taken. Throws where the workspace is gone. */
export async function changeWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	id: string,
	input: Partial<WorkspaceInput>,
): Promise<Workspace | undefined> {
	const named = input.name === undefined ? undefined : await findWorkspaceByName(trx, input.name);
	if (named && named.id !== id) {
		return undefined;
	}
	const before = await findWorkspace(trx, id);
	const changes = changesOf(id, input, before, storeTime(tools.clock.now()));
	if (Object.keys(changes).length > 0) {
		await record(trx, tools, 'workspace.updated', id, changes);
	}
	return await update(trx, id, changes);
}

/** Throws `Refused` for a default topic that the workspace does not have. */
export async function checkTopic(
	reader: Knex,
	id: string,
	{default_topic: code}: Partial<WorkspaceInput>,
): Promise<void> {
	if (code && !(await lookUpTopic(reader, id, code))) {
		throw new Refused('unprocessable_entity', {wrong: `there is no topic ${code}`, next: 'see mailctl topic list'});
	}
}

/** The same for more days than the installation keeps messages (`most`; 0: for ever). */
export function checkKept({retention_days, content_days}: Partial<WorkspaceInput>, most: number): void {
	if (most > 0 && Math.max(retention_days ?? 0, content_days ?? 0) > most) {
		throw new Refused('unprocessable_entity', {
			wrong: `the days are more than MAILCTL_RETENTION_DAYS (${most})`,
			next: 'the installation keeps nothing longer, give fewer',
			page: `The installation keeps messages ${most} days: give fewer.`,
		});
	}
}

/** Sends are refused and what is queued is held; a second pause keeps the first one's time and takes the new reason. */
export async function pauseWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	workspace: Workspace,
	reason: string,
): Promise<Workspace> {
	const pausedAt = workspace.paused_at ?? storeTime(tools.clock.now());
	await record(trx, tools, 'workspace.paused', workspace.id, {reason});
	return await update(trx, workspace.id, {paused_at: pausedAt, pause_reason: reason, paused_by: null});
}

/** Whether the guard or a user of all workspaces has paused a workspace. Only those resume it. */
export function isPausedFromAbove({paused_at: at, paused_by: by}: Workspace): boolean {
	return at !== null && by === null;
}

/** A pause by users of the workspace alone. False: it is paused from above, or gone; then nothing changes. */
export async function pauseOwn(trx: Knex.Transaction, tools: ActTools, id: string, reason: string): Promise<boolean> {
	const before = await findWorkspace(trx, id);
	if (!before || isPausedFromAbove(before)) {
		return false;
	}
	const workspace = await pauseWorkspace(trx, tools, before, reason);
	await update(trx, workspace.id, {paused_by: 'workspace'});
	return true;
}

/**
 * Ends a pause by users of the workspace alone; what its reputation is judged by stays. False: it is paused from above,
 * or gone.
 */
export async function resumeOwn(trx: Knex.Transaction, tools: ActTools, id: string): Promise<boolean> {
	const before = await findWorkspace(trx, id);
	if (!before || isPausedFromAbove(before)) {
		return false;
	}
	if (before.paused_at !== null) {
		await record(trx, tools, 'workspace.resumed', id, {});
		await update(trx, id, {paused_at: null, pause_reason: null, paused_by: null});
	}
	return true;
}

/**
 * What was held goes out; the figures of its reputation start again from zero (R7.2). One that is neither paused nor
 * warned of stays as it is: who resumes by a script now and then must not disarm the guard.
 */
export async function resumeWorkspace(trx: Knex.Transaction, tools: ActTools, id: string): Promise<Workspace> {
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

/** A route may hold the password of a smarthost: that it was changed is all that is said of it. */
async function record(
	trx: Knex.Transaction,
	tools: ActTools,
	action: string,
	id: string,
	{route, ...detail}: Readonly<Record<string, unknown>>,
): Promise<void> {
	const isRouted = route === undefined ? {} : {route: route === null ? null : 'its own'};
	await recordAct(trx, tools, {action, workspaceId: id, target: id, detail: {...detail, ...isRouted}});
}

async function update(trx: Knex.Transaction, id: string, changes: WorkspaceChanges): Promise<Workspace> {
	if (Object.keys(changes).length > 0) {
		await updateWorkspace(trx, id, changes);
		await bumpGeneration(trx);
	}
	const workspace = await findWorkspace(trx, id);
	if (!workspace) {
		throw new Error(`The workspace ${id} is gone.`);
	}
	return workspace;
}

function changesOf(
	id: string,
	{track_opens, track_clicks, route, branding, limits, ...plain}: Partial<WorkspaceInput>,
	before: Pick<Workspace, 'branding' | 'limits'> | undefined,
	now: string,
): WorkspaceChanges {
	return {
		...plain,
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
