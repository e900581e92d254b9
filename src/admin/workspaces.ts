import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {type Branding, readBranding, writeBranding} from '../mail/branding.ts';
import {idFloor} from '../mail/ids.ts';
import type {ActTools} from '../mail/operator.ts';
import {withPasswords} from '../mail/route.ts';
import {Refused} from '../ops/operation.ts';
import {beginAct, recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {findWaiting} from '../store/queue/queue-summary.ts';
import {forgetFigures} from '../store/reputation.ts';
import {removeMessages} from '../store/retention.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {lookUpTopic} from '../store/topics.ts';
import {
	closeWorkspace,
	deleteWorkspaceRow,
	findWorkspace,
	findWorkspaceByName,
	insertWorkspace,
	removeLists,
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
	const changes = changesOf(id, input, before?.branding ?? null, storeTime(tools.clock.now()));
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
	{track_opens, track_clicks, route, branding, ...plain}: Partial<WorkspaceInput>,
	brandingBefore: string | null,
	now: string,
): WorkspaceChanges {
	return {
		...plain,
		...(track_opens !== undefined && {track_opens_at: track_opens ? now : null}),
		...(track_clicks !== undefined && {track_clicks_at: track_clicks ? now : null}),
		...(route !== undefined && {route: route && withPasswords(route.text, password => route.vault.seal(id, password))}),
		...(branding !== undefined && {branding: writeBranding({...readBranding(brandingBefore), ...branding})}),
	};
}

export type DeleteOptions = {
	readonly store: Pick<Store, 'reader' | 'writer' | 'dialect'>;
	readonly tools: ActTools;
	/** Resolves when every running daemon knows what was committed before the call. */
	readonly settled: () => Promise<void>;
	/** Removes the captured mails of copies. It is called before each step commits. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Gets the messages removed so far. */
	readonly onStep: (messages: number) => void;
};

/** The result: how many messages were deleted with it, or how many recipients still wait, and nothing was deleted. */
type Deleted =
	| {readonly kind: 'deleted'; readonly messages: number}
	| {readonly kind: 'waiting'; readonly recipients: number};

/** Small enough that no send beside it waits long. */
const messagesPerStep = 50;
/** After every message. */
const noBefore = idFloor('msg', 2 ** 48 - 1);

/**
 * Deletes a workspace with all that is in it, in short transactions; the audit trail stays. Accepted mail is never lost: the
 * workspace refuses sends first, and while copies wait nothing is deleted. What is interrupted goes on when it is called again.
 */
export async function deleteWorkspace(options: DeleteOptions, workspace: Workspace): Promise<Deleted> {
	const {store, tools, settled, removeCaptured, onStep} = options;
	const {reader, writer} = store;
	const {id, name, paused_at, pause_reason, paused_by} = workspace;
	const waiting = async () => (await findWaiting(reader, {workspaceId: id})).length;
	const pause = async (changes: Pick<Workspace, 'paused_at' | 'pause_reason' | 'paused_by'>) =>
		await writer.transaction(async trx => {
			await updateWorkspace(trx, id, changes);
			await bumpGeneration(trx);
		});
	const before = await waiting();
	if (before > 0) {
		return {kind: 'waiting', recipients: before};
	}
	const pausedAt = paused_at ?? storeTime(tools.clock.now());
	await pause({paused_at: pausedAt, pause_reason: 'it is being deleted', paused_by: null});
	await settled();
	const late = await waiting();
	if (late > 0) {
		await pause({paused_at, pause_reason, paused_by});
		return {kind: 'waiting', recipients: late};
	}
	const record = beginAct(tools, {action: 'workspace.deleted', workspaceId: id, target: id});
	let messages = 0;
	await writer.transaction(async trx => {
		await closeWorkspace(trx, id, storeTime(tools.clock.now()));
		await record(trx, {name, messages});
		await bumpGeneration(trx);
	});
	for (;;) {
		for (let after: string | null = ''; after !== null; ) {
			const range = {workspaceId: id, after, before: noBefore, limit: messagesPerStep};
			const removed = await writer.transaction(async trx => {
				const step = await removeMessages(trx, store.dialect, range);
				await removeCaptured(step.recipientIds);
				await record(trx, {name, messages: messages + step.messages});
				return step;
			});
			after = removed.next;
			messages += removed.messages;
			onStep(messages);
		}
		while (await writer.transaction(trx => removeLists(trx, id))) {
			onStep(messages);
		}
		if (await removeRest(store, id)) {
			return {kind: 'deleted', messages};
		}
		const recipients = await waiting();
		if (recipients > 0) {
			return {kind: 'waiting', recipients};
		}
	}
}

/** False: there is a message after all. */
async function removeRest({writer}: Pick<Store, 'writer'>, id: string): Promise<boolean> {
	const undone = new Error('a message came meanwhile');
	try {
		await writer.transaction(async trx => {
			if (!(await deleteWorkspaceRow(trx, id))) {
				throw undone;
			}
			await bumpGeneration(trx);
		});
		return true;
	} catch (error) {
		if (error === undone) {
			return false;
		}
		throw error;
	}
}
