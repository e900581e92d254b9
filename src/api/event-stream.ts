import type {StreamedEvent} from '../store/event-stream.ts';
import type {Vault} from '../store/sealed.ts';
import {streamedEventView} from './views.ts';

// The messages of `GET /v1/events`, in the form that browsers read: HTML Standard, "Server-sent events".

/** A place in the stream: right behind this event, or where a heartbeat was (`eventId` null). */
export type StreamPlace = {readonly position: number; readonly eventId: string | null};

/** The ids of messages of a workspace's stream. A place counts the events of all workspaces, so it is sealed. */
export type StreamIds = {
	readonly write: (place: StreamPlace) => string;
	/** Null: it is no id of this stream. */
	readonly read: (id: string) => StreamPlace | null;
};

/** So that the length of an id reveals nothing. */
const digits = 15;
const longestId = 200;

export function streamIds(vault: Vault, workspaceId: string): StreamIds {
	const owner = `events of ${workspaceId}`;
	return {
		write: ({position, eventId}) => vault.seal(owner, `${String(position).padStart(digits, '0')}${eventId ?? ''}`),
		read(id) {
			try {
				const text = vault.open(owner, id.slice(0, longestId));
				return {position: Number(text.slice(0, digits)), eventId: text.slice(digits) || null};
			} catch {
				return null;
			}
		},
	};
}

/** An event as a message. Its id is where a stream goes on that is opened again. */
export function eventMessage(event: StreamedEvent, ids: StreamIds): string {
	const id = ids.write({position: event.position, eventId: event.id});
	return `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(streamedEventView(event))}\n\n`;
}

/** A message that no reader sees: it keeps the connection open, and says how far the stream has come. */
export function heartbeat(position: number, ids: StreamIds): string {
	return `: heartbeat\nid: ${ids.write({position, eventId: null})}\n\n`;
}
