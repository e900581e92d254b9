import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {idFloor} from '../mail/ids.ts';
import type {ActTools} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {holdOffAccepts, isSoleRemover, takeTime} from '../store/engine/dialect.ts';
import {countMessages, hasMessages} from '../store/messages.ts';
import {readOpenOf} from '../store/queue/open-recipients.ts';
import {findWaiting} from '../store/queue/queue-summary.ts';
import {endRecipients, removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {
	deleteWorkspaceRow,
	findDeletedWorkspace,
	markDeleted,
	removeLists,
	type Workspace,
} from '../store/workspaces.ts';

/** The result: how many messages go with it, or how many recipients still wait, and nothing was deleted. */
type Deleted =
	| {readonly kind: 'deleted'; readonly messages: number}
	| {readonly kind: 'waiting'; readonly recipients: number};

/**
 * Deletes a workspace: from now on nothing finds it, and its name is free; what it has left is for `removalOf`. The
 * audit trail stays. Accepted mail is never lost: while copies wait nothing is deleted, and none is accepted once it
 * is.
 */
export async function deleteWorkspace(
	{store, tools}: {readonly store: Pick<Store, 'reader' | 'writer'>; readonly tools: ActTools},
	{id, name}: Pick<Workspace, 'id' | 'name'>,
): Promise<Deleted> {
	// Before the transaction, which is to be short: no other mail comes or goes by then.
	const messages = await countMessages(store.reader, id);
	return await store.writer.transaction(async trx => {
		await holdOffAccepts(trx);
		const {length: recipients} = await findWaiting(trx, {workspaceId: id});
		if (recipients > 0) {
			return {kind: 'waiting', recipients};
		}
		// Nobody can have taken the new name before.
		const marked = {id, name: `deleted ${tools.newId('ws')}`, now: storeTime(tools.clock.now())};
		await markDeleted(trx, marked);
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
	/** Removes the captured mails of copies. It is called before each step commits. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Gets the messages removed so far. */
	readonly onStep?: (messages: number) => void;
};

/** Small enough that no send beside it waits long. */
const messagesPerStep = 50;
const copiesPerStep = 500;
/** After every message. */
const noBefore = idFloor('msg', 2 ** 48 - 1);

/**
 * Removes what is left of deleted workspaces, one after the other, in steps; a step says whether there may be more.
 * What is interrupted goes on when it begins again.
 */
export function removalOf({store, clock, removeCaptured, onStep}: RemovalOptions): () => Promise<boolean> {
	let removed = 0;
	// Where the last step ended: an index may still lead to what is gone.
	let at = {workspaceId: '', after: ''};

	return async () => {
		const step = await store.writer.transaction(async trx => {
			await takeTime(trx);
			const workspaceId = (await isSoleRemover(trx)) ? await findDeletedWorkspace(trx) : undefined;
			if (workspaceId === undefined) {
				return null;
			}
			const after = at.workspaceId === workspaceId ? at.after : '';
			const range = {workspaceId, after, before: noBefore, limit: messagesPerStep};
			const {next, messages, recipientIds} = await removeMessages(trx, store.dialect, range);
			// Before the commit: until then the rows name the files, if all is interrupted.
			await removeCaptured(recipientIds);
			if (next === null && messages === 0 && !(await removeLists(trx, workspaceId))) {
				await endRemoval(trx, workspaceId, storeTime(clock.now()));
			}
			return {at: {workspaceId, after: next ?? ''}, messages};
		});
		if (step === null) {
			return false;
		}
		at = step.at;
		removed += step.messages;
		onStep?.(removed);
		return true;
	};
}

async function endRemoval(trx: Knex.Transaction, id: string, now: string): Promise<void> {
	// What a node of the version before accepted since.
	const late = await readOpenOf(trx, id, copiesPerStep);
	if (late.length > 0) {
		await endRecipients(trx, late, {state: 'suppressed', at: now});
	} else if (!(await hasMessages(trx, id))) {
		await deleteWorkspaceRow(trx, id);
		await bumpGeneration(trx);
	}
}
