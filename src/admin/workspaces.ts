import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {type Branding, readBranding, writeBranding} from '../mail/branding.ts';
import type {ActTools} from '../mail/operator.ts';
import {withPasswords} from '../mail/route-choice.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {forgetFigures} from '../store/reputation.ts';
import type {Vault} from '../store/sealed.ts';
import {
	findWorkspace,
	findWorkspaceByName,
	insertWorkspace,
	updateWorkspace,
	type Workspace,
	type WorkspaceChanges,
} from '../store/workspaces.ts';

export type WorkspaceInput = {
	readonly name: string;
	readonly locale?: string | null;
	readonly timezone?: string | null;
	/** Null: no limit. */
	readonly monthlyQuota?: number | null;
	readonly trackOpens?: boolean;
	readonly trackClicks?: boolean;
	/** Seconds; null: as MAILCTL_QUEUE_LIFETIME says. */
	readonly queueLifetime?: number | null;
	/** A pool of MAILCTL_SOURCE_POOLS; null: all source addresses. */
	readonly sourcePool?: string | null;
	/** As `parseRoute` reads it, passwords open; null: as MAILCTL_DELIVERY says. */
	readonly route?: {readonly text: string; readonly vault: Pick<Vault, 'seal'>} | null;
	/** How its hosted pages look; what is left out stays as it is. */
	readonly branding?: Partial<Branding>;
};

/** Undefined: the name is taken. */
export async function createWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	input: WorkspaceInput,
): Promise<Workspace | undefined> {
	const now = storeTime(tools.clock.now());
	const id = tools.newId('ws');
	const changes = changesOf(id, input, null, now);
	const workspace: Workspace = {
		id,
		name: input.name,
		locale: null,
		timezone: null,
		monthly_quota: null,
		track_opens_at: null,
		track_clicks_at: null,
		queue_lifetime_s: null,
		source_pool: null,
		route: null,
		branding: null,
		...changes,
		paused_at: null,
		pause_reason: null,
		paused_by: null,
		reputation_since: null,
		reputation_warned_at: null,
		created_at: now,
	};
	if (!(await insertWorkspace(trx, workspace))) {
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
	const changes = changesOf(id, input, before?.branding ?? null, storeTime(tools.clock.now()));
	if (Object.keys(changes).length > 0) {
		await record(trx, tools, 'workspace.updated', id, changes);
	}
	return await update(trx, id, changes);
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

/** Ends a pause by users of the workspace alone; what its reputation is judged by stays. False: it is paused from above, or gone. */
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
 * What was held goes out; the figures of its reputation start again from zero (R7.2). One that is neither paused nor warned of
 * stays as it is: who resumes by a script now and then must not disarm the guard.
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
	input: Partial<WorkspaceInput>,
	brandingBefore: string | null,
	now: string,
): WorkspaceChanges {
	const {name, locale, timezone, monthlyQuota, trackOpens, trackClicks, queueLifetime, branding} = input;
	const {sourcePool, route} = input;
	return {
		...(name !== undefined && {name}),
		...(locale !== undefined && {locale}),
		...(timezone !== undefined && {timezone}),
		...(monthlyQuota !== undefined && {monthly_quota: monthlyQuota}),
		...(trackOpens !== undefined && {track_opens_at: trackOpens ? now : null}),
		...(trackClicks !== undefined && {track_clicks_at: trackClicks ? now : null}),
		...(queueLifetime !== undefined && {queue_lifetime_s: queueLifetime}),
		...(sourcePool !== undefined && {source_pool: sourcePool}),
		...(route !== undefined && {route: route && withPasswords(route.text, password => route.vault.seal(id, password))}),
		...(branding !== undefined && {branding: writeBranding({...readBranding(brandingBefore), ...branding})}),
	};
}
