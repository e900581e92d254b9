import type {StreamedEvent} from '../store/event-stream.ts';
import {streamedEventView} from './views.ts';

// The messages of `GET /v1/events`, in the form that browsers read: HTML Standard, "Server-sent events".

/** An event as a message. Its id is where a stream goes on that is opened again. */
export function eventMessage(event: StreamedEvent): string {
	const id = `${event.id}-${event.position}`;
	return `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(streamedEventView(event))}\n\n`;
}

/** A message that no reader sees: it keeps the connection open, and says how far the stream has come. */
export function heartbeat(position: number): string {
	return `: heartbeat\nid: ${position}\n\n`;
}

/** A place in the stream: right behind this event, or where a heartbeat was (`eventId` null). */
export type StreamPlace = {readonly position: number; readonly eventId: string | null};

/** Reads the id of a message; null: it is none of ours. */
export function parseStreamPlace(text: string): StreamPlace | null {
	const found = /^(?:(evt_[0-9a-hjkmnp-tv-z]{26})-)?(0|[1-9]\d{0,14})$/.exec(text);
	return found && {eventId: found[1] ?? null, position: Number(found[2])};
}
