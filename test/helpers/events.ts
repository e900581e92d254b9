import type {ExecutionContext} from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import type {Store} from '../../src/store/store.ts';
import {insertEvents, type NewEvent} from '../../src/store/timeline.ts';
import {newId} from './messages.ts';

export function newEvent(messageId: string, type: NewEvent['type'] = 'delivered'): NewEvent {
	const at = storeTime(Date.now());
	return {id: newId('evt'), messageId, recipientId: null, type, occurredAt: at, recordedAt: at, detail: '{"n":1}'};
}

/** PostgreSQL: a transaction that has written an event and commits at `end`, as if a node hung. */
export async function startLateWrite(t: ExecutionContext, {reader}: Store, messageId: string) {
	const event = newEvent(messageId);
	const trx = await reader.transaction();
	// The server would end it after seven seconds, which a busy machine may need for what the test does meanwhile.
	await trx.raw('set local idle_in_transaction_session_timeout = 0');
	t.teardown(() => (trx.isCompleted() ? undefined : trx.rollback()));
	await insertEvents(trx, [event]);
	return {event, end: async () => void (await trx.commit())};
}
