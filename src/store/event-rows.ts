import {storeTime} from '../kit/time.ts';
import type {EventType} from '../mail/event.ts';
import {idTime} from '../mail/ids.ts';

/*
 * How events lie in the table. What one transaction records of a copy shares a row: its columns are those of the last event, and
 * `earlier` has those before it, as far as they can be told from the last (docs/internals/decisions/0026-rows-of-events.md).
 */

/** A timeline entry to be written; times in the store's form, `detail` as JSON text. */
export type NewEvent = {
	readonly id: string;
	readonly messageId: string;
	readonly recipientId: string | null;
	readonly type: EventType;
	readonly occurredAt: string;
	readonly recordedAt: string;
	readonly detail: string | null;
};

export type StoredEvent = {
	readonly id: string;
	readonly type: EventType;
	readonly occurredAt: string;
	readonly recordedAt: string;
	readonly detail: Readonly<Record<string, unknown>>;
};

/** An event and those before it that share its row: JSON text, null: it is alone. */
export type SharedRow = NewEvent & {readonly earlier: string | null};

/** A row as it is read. */
export type StoredRow = Omit<StoredEvent, 'detail'> & {readonly detail: string | null; readonly earlier: string | null};

export const rowColumns = ['id', 'type', 'occurred_at as occurredAt', 'recorded_at as recordedAt', 'detail', 'earlier'];

/** Without a time it happened when its id was made. */
type Earlier = readonly [id: string, type: 'queued' | 'sent', occurredAt?: string];

const timeOf = (id: string) => storeTime(idTime(id));

type Detail = StoredEvent['detail'];
const parsed = (detail: string | null): Detail => JSON.parse(detail ?? '{}');
const sentDetail = ({recipient, role, attempt}: Detail): Detail => ({
	...(recipient !== undefined && {recipient}),
	...(role !== undefined && {role}),
	...(attempt !== undefined && {attempt}),
});

/** Puts events into rows. */
export function sharedRows(events: readonly NewEvent[]): SharedRow[] {
	const rows: SharedRow[] = [];
	let earlier: Earlier[] = [];
	for (const [index, event] of events.entries()) {
		if (isToldBy(event, events[index + 1])) {
			const {id, type, occurredAt} = event;
			earlier.push(occurredAt === timeOf(id) ? [id, type] : [id, type, occurredAt]);
		} else {
			rows.push({...event, earlier: earlier.length === 0 ? null : JSON.stringify(earlier)});
			earlier = [];
		}
	}
	return rows;
}

/**
 * Whether the next event says all that is to be known of this one, but its id and its time. `sent` has its place right before: of
 * two ids that were made one after the other within a millisecond no other is between.
 */
function isToldBy(event: NewEvent, next: NewEvent | undefined): event is NewEvent & {readonly type: Earlier[1]} {
	if (event.messageId !== next?.messageId || event.recipientId !== next.recipientId) {
		return false;
	}
	return event.type === 'queued'
		? event.detail === null && event.recordedAt === event.occurredAt
		: event.type === 'sent' &&
				event.recordedAt === next.recordedAt &&
				idTime(event.id) === idTime(next.id) &&
				event.detail === JSON.stringify(sentDetail(parsed(next.detail)));
}

/** The events of a row in their order, each with what else the row has. */
export function eventsOf<Row extends StoredRow>({
	earlier,
	detail: text,
	...last
}: Row): Array<Omit<Row, 'earlier' | 'detail'> & StoredEvent> {
	const detail = parsed(text);
	const before: readonly Earlier[] = JSON.parse(earlier ?? '[]');
	return [
		...before.map(([id, type, occurredAt = timeOf(id)]) => ({
			...last,
			...{id, type, occurredAt},
			...(type === 'queued' ? {recordedAt: occurredAt, detail: {}} : {detail: sentDetail(detail)}),
		})),
		{...last, detail},
	];
}

/** The first event of a message whose row tells of it: it has a position in the stream. */
export function acceptedEvent(messageId: string, createdAt: string): StoredEvent {
	const id = `evt${messageId.slice(3)}`;
	return {id, type: 'accepted', occurredAt: createdAt, recordedAt: createdAt, detail: {}};
}

/** The event of a copy that was claimed for the first time. */
export function queuedEvent(id: string): Pick<NewEvent, 'id' | 'occurredAt' | 'recordedAt' | 'detail'> & {
	readonly type: 'queued';
} {
	return {id, type: 'queued', occurredAt: timeOf(id), recordedAt: timeOf(id), detail: null};
}
