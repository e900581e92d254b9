import type {ServerResponse} from 'node:http';
import {Readable} from 'node:stream';
import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import type {ApiParts, Route} from '../../api/api-parts.ts';
import {prefersCsv, sendCsv} from '../../api/api-route.ts';
import {requireCaller} from '../../api/auth.ts';
import {visibleMode} from '../../api/caller.ts';
import {describe} from '../../api/describe.ts';
import {ConcurrencyLimit} from '../../kit/turns.ts';
import {apiError, retryAfter} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {eventsUntilNow, findAtPosition, type StreamedEvent, type StreamPart} from '../../store/event-stream.ts';
import type {Vault} from '../../store/sealed.ts';
import {readLastPosition} from '../../store/timeline.ts';
import {csvColumns, streamCsv} from '../csv-lists.ts';
import {streamedEventView} from '../views.ts';
import {streamedEventSchema} from './schema.ts';

// `GET /v1/events` sends server-sent events, the format that browsers read (HTML Standard, "Server-sent events").

/** What an id of the stream stands for: an event, or a heartbeat if `eventId` is `null`. */
export type StreamPosition = {readonly position: number; readonly eventId: string | null};

/**
 * Converts positions to ids and back. Positions count the events of all workspaces, so the ids are encrypted: a client
 * must not learn how much mail other workspaces send.
 */
type StreamIds = {
	readonly write: (position: StreamPosition) => string;
	/** Returns `null` if the text is not an id of this stream. */
	readonly read: (id: string) => StreamPosition | null;
};

/** Positions are padded to this width, so that the length of an id reveals nothing. */
const digits = 15;
const maxIdLength = 200;

export function streamIds(vault: Vault, workspaceId: string): StreamIds {
	const owner = `events of ${workspaceId}`;
	return {
		write: ({position, eventId}) => vault.seal(owner, `${String(position).padStart(digits, '0')}${eventId ?? ''}`),
		read(id) {
			try {
				const text = vault.open(owner, id.slice(0, maxIdLength));
				return {position: Number(text.slice(0, digits)), eventId: text.slice(digits) || null};
			} catch {
				return null;
			}
		},
	};
}

/** Formats an event for the stream. A client resumes after it by sending its id. */
function eventMessage(event: StreamedEvent, ids: StreamIds): string {
	const id = ids.write({position: event.position, eventId: event.id});
	return `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(streamedEventView(event))}\n\n`;
}

/** Formats a heartbeat, which keeps the connection open and tells clients how far the stream has come. */
function heartbeat(position: number, ids: StreamIds): string {
	return `: heartbeat\nid: ${ids.write({position, eventId: null})}\n\n`;
}

/** The maximum number of open streams per key and process. */
const maxStreams = 10;
/** Proxies close idle connections, often after 30 or 60 seconds. */
const heartbeatMs = 15_000;

/**
 * Where a stream starts: after the position `after`. Several events can share a position, so `seenIds` are those of the
 * next position that the client already has.
 */
type StreamStart = {readonly after: number; readonly seenIds: ReadonlySet<string>};
const noIds: StreamStart['seenIds'] = new Set();

const scope = 'events:read';
const lastEventId = 'Last-Event-ID';
const streamQuery = Type.Object(
	{
		types: Type.Optional(
			Type.String({
				format: 'event-types',
				description: 'Only events of these types, separated by commas: `delivered,bounced`.',
			}),
		),
		after: Type.Optional(
			Type.String({description: `The same as the header \`${lastEventId}\`, which takes precedence.`}),
		),
	},
	{additionalProperties: false},
);
const streamHeaders = Type.Object({
	[lastEventId]: Type.Optional(
		Type.String({description: 'The `id` of the last event that you received. The stream resumes after it.'}),
	),
});

const streamSchema = {
	...describe({
		tag: 'Events',
		summary: 'Stream events',
		description: `Streams the events of the workspace’s messages as server-sent events, from now on or after \`${lastEventId}\`. The events of a message arrive in order. A test key sees only events of test messages. After a lost connection an event may arrive twice, but none is lost. A key may have at most ${maxStreams} open streams. With \`Accept: text/csv\` the response contains the existing events, oldest first, from the first one or after \`${lastEventId}\`.`,
		answer: [200, 'Server-sent events whose `data` is an event. The stream has no end.', streamedEventSchema],
		media: 'text/event-stream',
		csv: csvColumns.events,
	}),
	querystring: streamQuery,
	headers: streamHeaders,
};

/** The route that streams the events of a workspace. */
export const eventStreamRoute: Route = parts => {
	const streams = new EventStreams(parts);
	return api => {
		api.get('/v1/events', {onRequest: parts.auth.needs(scope), schema: streamSchema}, (request, reply) =>
			streams.respond(request, reply),
		);
	};
};

/** The open streams of events. */
class EventStreams {
	readonly #parts: Pick<ApiParts, 'auth' | 'reader' | 'feed' | 'vault' | 'tools'>;
	readonly #seats = new ConcurrencyLimit(maxStreams);
	readonly #open = new Set<ServerResponse>();

	constructor(parts: ApiParts) {
		this.#parts = parts;
		parts.feed.closing.addEventListener('abort', () => this.#closeUnread());
	}

	/** Responds with a stream, or with the existing events as CSV. */
	async respond(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const {reader, feed, vault} = this.#parts;
		const {keyId, workspaceId} = requireCaller(request);
		const ids = streamIds(vault, workspaceId);
		const start = await findStart(reader, request, ids);
		const {raw} = reply;
		if (prefersCsv(request)) {
			const pages = eventsUntilNow(reader, workspaceId, {
				after: start?.after ?? 0,
				isVisible: event => isVisible(request, event) && !start?.seenIds.has(event.id),
			});
			return await sendCsv(reply, 'events', streamCsv(csvColumns.events, pages, streamedEventView));
		}
		if (request.method === 'HEAD' || raw.destroyed) {
			return sendStream(reply);
		}
		const release = this.#seats.take(keyId);
		if (release === undefined) {
			const message = `This key already has ${maxStreams} open streams. Close one first.`;
			throw apiError('rate_limited', {message, headers: retryAfter(heartbeatMs)});
		}
		this.#open.add(raw);
		raw.once('close', () => {
			this.#open.delete(raw);
			release();
		});
		const streamParts = await feed.open(workspaceId, start?.after ?? null);
		const messages = this.#toMessages(request, streamParts, {ids, seenIds: start?.seenIds ?? noIds});
		return sendStream(reply, Readable.from(messages, {objectMode: false}));
	}

	/** Formats the visible events, or a heartbeat after a while without any. Ends when the key is no longer valid. */
	async *#toMessages(
		request: FastifyRequest,
		streamParts: AsyncIterable<StreamPart>,
		{ids, seenIds}: {readonly ids: StreamIds; readonly seenIds: StreamStart['seenIds']},
	): AsyncGenerator<Buffer> {
		const {auth, tools} = this.#parts;
		let wroteAt = Number.NEGATIVE_INFINITY;
		for await (const {events, position} of streamParts) {
			if (!(await auth.isAuthorized(request, scope))) {
				return;
			}
			const visible = events.filter(event => isVisible(request, event) && !seenIds.has(event.id));
			if (visible.length > 0) {
				yield Buffer.from(visible.map(event => eventMessage(event, ids)).join(''));
			} else if (tools.clock.monotonic() - wroteAt >= heartbeatMs) {
				yield Buffer.from(heartbeat(position, ids));
			} else {
				continue;
			}
			wroteAt = tools.clock.monotonic();
		}
	}

	/** Closes the streams whose clients have stopped reading, because these would delay shutdown. */
	#closeUnread(): void {
		for (const response of this.#open) {
			if (response.writableNeedDrain) {
				response.destroy();
			}
		}
	}
}

/** Returns where the client wants to resume, or `null`. Throws `validation_failed` if the store has no such event. */
async function findStart(reader: Knex, {headers, query}: FastifyRequest, ids: StreamIds): Promise<StreamStart | null> {
	const {after} = query as {after?: string};
	const header = headers['last-event-id'];
	const requested = typeof header === 'string' && header !== '' ? header : after;
	if (requested === undefined) {
		return null;
	}
	const parsed = ids.read(requested);
	if (parsed && parsed.position <= (await readLastPosition(reader))) {
		const {position, eventId} = parsed;
		const idsAtPosition = eventId === null ? undefined : await findAtPosition(reader, position);
		// The event may have been removed since, and a heartbeat has none.
		if (eventId === null || idsAtPosition === undefined) {
			return {after: position, seenIds: noIds};
		}
		if (idsAtPosition.includes(eventId)) {
			// Other events at the same position may follow this one.
			return {after: position - 1, seenIds: new Set(idsAtPosition.slice(0, idsAtPosition.indexOf(eventId) + 1))};
		}
	}
	const field = requested === header ? lastEventId : 'after';
	const message = 'must be the id of an event in this stream; omit it to start now';
	throw apiError('validation_failed', {violations: [{field, message}]});
}

/** Whether the event has one of the requested types and the key may see it. */
function isVisible(request: FastifyRequest, {type, mode}: StreamedEvent): boolean {
	const {types} = request.query as {types?: string};
	return (types?.split(',').includes(type) ?? true) && mode === (visibleMode(requireCaller(request)) ?? mode);
}

/** The connection closes with the stream, so shutdown need not wait. The last header stops nginx from buffering. */
function sendStream(reply: FastifyReply, body?: Readable): FastifyReply {
	return reply
		.type('text/event-stream; charset=utf-8')
		.headers({'cache-control': 'no-cache', connection: 'close', 'x-accel-buffering': 'no'})
		.send(body);
}
