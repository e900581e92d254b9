import {storeTime} from '../../kit/time.ts';
import {type Extras, extrasJson} from '../../mail/message.ts';
import {leavesTime, readSendAt, sendAtRule} from '../../mail/schedule.ts';
import {Type} from '../../mail/type.ts';
import {endByOperator} from '../../outcome/settle.ts';
import {findMessage, type StoredMessage, storeExtras} from '../../store/messages.ts';
import {lockUnbegun, reschedule} from '../../store/queue/open-recipients.ts';
import {type OperationContext, operation, Refused, refuseField} from '../operation.ts';

const sends = {
	scope: 'messages:send',
	role: 'operator',
	without: {apply: 'a file has no messages'},
} as const;
const id = Type.String();

/** Cancels a message for all its recipients, if no attempt has started yet. */
export const cancelMessage = operation({
	...sends,
	name: 'message cancel',
	input: Type.Object({id}, {additionalProperties: false, examples: [{}]}),
	async run(context, {id: messageId}): Promise<StoredMessage> {
		const {trx, tools} = context;
		const {ids} = await lockBeforeAttempt(context, messageId);
		const step = {ids, now: storeTime(tools.clock.now()), silentSince: null};
		await endByOperator(trx, step, {kind: 'cancel'}, tools);
		return await requireMessage(context, messageId);
	},
	audit: 'message.cancelled',
	entry: ({id: target}) => ({target}),
	refreshes: false,
});

/** Schedules a message, whether it was scheduled before or not, if no attempt has started yet. */
export const rescheduleMessage = operation({
	...sends,
	name: 'message reschedule',
	input: Type.Object(
		{
			id,
			sendAt: Type.String({
				description:
					'An RFC 3339 time, or a time from now (`+90m`, `+2h`, `+3d`), at most 30 days ahead. A time in the past means now.',
			}),
		},
		{additionalProperties: false, examples: [{sendAt: '2026-06-09T10:00:00Z'}]},
	),
	async run(context, {id: messageId, sendAt: text}): Promise<StoredMessage> {
		const {trx, tools} = context;
		const now = tools.clock.now();
		const sendAt = readSendAt(text, now);
		if (sendAt === undefined) {
			refuseField('the time', sendAtRule);
		}
		const {ids, extras} = await lockBeforeAttempt(context, messageId);
		const {sendAt: _, ...rest} = extras;
		if (
			rest.expiresAt !== undefined &&
			!leavesTime(sendAt === null ? now : Date.parse(sendAt), Date.parse(rest.expiresAt))
		) {
			refuseField('the time', `must be at least a minute before the message expires at ${rest.expiresAt}`);
		}
		await storeExtras(trx, messageId, extrasJson({...rest, ...(sendAt !== null && {sendAt})}));
		await reschedule(trx, ids, {messageId, sendAt, now: storeTime(now)});
		return await requireMessage(context, messageId);
	},
	audit: 'message.rescheduled',
	entry: ({id: target, extras: {sendAt = null}}) => ({target, detail: {send_at: sendAt}}),
	refreshes: false,
});

/** Locks the recipients of a message and returns them with its extras. Throws `Refused` once an attempt has started. */
async function lockBeforeAttempt(
	context: OperationContext,
	messageId: string,
): Promise<{readonly ids: readonly string[]; readonly extras: Extras}> {
	await requireMessage(context, messageId);
	const ids = await lockUnbegun(context.trx, messageId);
	if (ids === null) {
		throw new Refused('not_cancellable', {
			wrong: `the first attempt of ${messageId} has already started, or the message is no longer queued`,
			next: `see mailctl message show ${messageId}`,
			page: 'It is too late: the first attempt has already started, or the message is no longer queued.',
		});
	}
	// Read again under the lock, because another change may have committed first.
	const {extras} = await requireMessage(context, messageId);
	return {ids, extras};
}

async function requireMessage({trx, workspaceId, mode}: OperationContext, messageId: string): Promise<StoredMessage> {
	const message = await findMessage(trx, workspaceId, messageId);
	if (!message || (mode === 'test' && message.mode !== mode)) {
		throw new Refused('message_not_found', {
			wrong: `message ${messageId} not found`,
			next: 'see mailctl message list',
		});
	}
	return message;
}
