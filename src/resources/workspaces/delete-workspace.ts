import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import type {ActTools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {holdOffAccepts, isSoleRemover, takeTime} from '../../store/engine/dialect.ts';
import {countMessages, hasMessages} from '../../store/messages.ts';
import {readOpenOf} from '../../store/queue/open-recipients.ts';
import {findWaiting} from '../../store/queue/queue-summary.ts';
import {endRecipients, removeMessages} from '../../store/retention.ts';
import type {Store} from '../../store/store.ts';
import {recordAct} from '../audit/store.ts';
import {deleteWorkspaceRow, findDeletedWorkspace, markDeleted, removeLists, type Workspace} from './store.ts';

/** The number of messages deleted with the workspace, or of queued recipients, which prevent its deletion. */
type Deleted =
	| {readonly kind: 'deleted'; readonly messages: number}
	| {readonly kind: 'waiting'; readonly recipients: number};

/**
 * Deletes a workspace: it can no longer be found, and its name is available again. `createRemoval` then removes its
 * data, except for the audit trail. Accepted mail is never lost: a workspace with queued recipients is not deleted, and
 * a deleted one accepts no mail.
 */
export async function deleteWorkspace(
	{store, tools}: {readonly store: Pick<Store, 'reader' | 'writer'>; readonly tools: ActTools},
	{id, name}: Pick<Workspace, 'id' | 'name'>,
): Promise<Deleted> {
	// Counted before the transaction to keep it short, because it blocks all other writes.
	const messages = await countMessages(store.reader, id);
	return await store.writer.transaction(async trx => {
		await holdOffAccepts(trx);
		const {length: recipients} = await findWaiting(trx, {workspaceId: id});
		if (recipients > 0) {
			return {kind: 'waiting', recipients};
		}
		// The placeholder name contains a new id, so it cannot be in use.
		const placeholder = `deleted ${tools.newId('ws')}`;
		await markDeleted(trx, {id, name: placeholder, now: storeTime(tools.clock.now())});
		await recordAct(trx, tools, {
			action: 'workspace.deleted',
			workspaceId: id,
			target: id,
			detail: {name, messages},
		});
		await bumpGeneration(trx);
		return {kind: 'deleted', messages};
	});
}

export type RemovalOptions = {
	readonly store: Pick<Store, 'writer' | 'dialect'>;
	readonly clock: ActTools['clock'];
	/** Removes the captured messages of recipients. It is called before each step commits. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Called with the number of messages removed so far. */
	readonly onStep?: (messages: number) => void;
};

/** Small enough that concurrent sends do not wait long. */
const messagesPerStep = 50;
const recipientsPerStep = 500;
/** An id greater than that of any message. */
const maxMessageId = idFloor('msg', 2 ** 48 - 1);

/**
 * Returns a function that removes the data of deleted workspaces step by step. It resolves to `true` if there may be
 * more to remove. After an interruption it continues where it stopped.
 */
export function createRemoval({store, clock, removeCaptured, onStep}: RemovalOptions): () => Promise<boolean> {
	let removed = 0;
	// The position after the last step. A scan from the start would pass over index entries of removed rows.
	let position = {workspaceId: '', after: ''};

	return async () => {
		const step = await store.writer.transaction(async trx => {
			await takeTime(trx);
			const workspaceId = (await isSoleRemover(trx)) ? await findDeletedWorkspace(trx) : undefined;
			if (workspaceId === undefined) {
				return null;
			}
			const after = position.workspaceId === workspaceId ? position.after : '';
			const range = {workspaceId, after, before: maxMessageId, limit: messagesPerStep};
			const {next, messages, recipientIds} = await removeMessages(trx, store.dialect, range);
			// Files are removed before the commit. If this is interrupted, the rows still name the remaining files.
			await removeCaptured(recipientIds);
			if (next === null && messages === 0 && !(await removeLists(trx, workspaceId))) {
				await finishRemoval(trx, workspaceId, storeTime(clock.now()));
			}
			return {position: {workspaceId, after: next ?? ''}, messages};
		});
		if (step === null) {
			return false;
		}
		position = step.position;
		removed += step.messages;
		onStep?.(removed);
		return true;
	};
}

async function finishRemoval(trx: Knex.Transaction, id: string, now: string): Promise<void> {
	// A node of an older version may have accepted messages since the deletion.
	const queued = await readOpenOf(trx, id, recipientsPerStep);
	if (queued.length > 0) {
		await endRecipients(trx, queued, {state: 'suppressed', at: now});
	} else if (!(await hasMessages(trx, id))) {
		await deleteWorkspaceRow(trx, id);
		await bumpGeneration(trx);
	}
}
