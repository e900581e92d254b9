import {storeTime} from '../kit/time.ts';
import {idFloor} from '../mail/ids.ts';
import type {ActTools} from '../mail/operator.ts';
import {beginAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {findWaiting} from '../store/queue/queue-summary.ts';
import {removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {closeWorkspace, deleteWorkspaceRow, removeLists, updateWorkspace, type Workspace} from '../store/workspaces.ts';

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
