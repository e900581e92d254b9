import type {ServerResponse} from 'node:http';
import {Readable} from 'node:stream';
import type {FastifyRequest} from 'fastify';
import {csvColumns, csvOf} from '../../admin/csv-lists.ts';
import {Type} from '../../mail/type.ts';
import {eventsUntilNow, findAtPosition, type StreamedEvent, type StreamPart} from '../../store/event-stream.ts';
import type {Vault} from '../../store/sealed.ts';
import {readLastPosition} from '../../store/timeline.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {asksForCsv, sendCsv} from '../api-route.ts';
import {callerOf} from '../auth.ts';
import {visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError, retryAfter} from '../errors.ts';
import {streamedEventSchema} from '../schemas/message.ts';
import {Seats} from '../turns.ts';
import {streamedEventView} from '../views.ts';

// The messages of `GET /v1/events`, in the form that browsers read: HTML Standard, "Server-sent events".

/** A place in the stream: right behind this event, or where a heartbeat was (`eventId` null). */
export type StreamPlace = {readonly position: number; readonly eventId: string | null};

/** The ids of messages of a workspace's stream. A place counts the events of all workspaces, so it is sealed. */
type StreamIds = {
	readonly write: (place: StreamPlace) => string;
	/** Null: it is no id of this stream. */
	readonly read: (id: string) => StreamPlace | null;
};

/** So that the length of an id reveals nothing. */
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

/** An event as a message. Its id is where a stream goes on that is opened again. */
function eventMessage(event: StreamedEvent, ids: StreamIds): string {
	const id = ids.write({position: event.position, eventId: event.id});
	return `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(streamedEventView(event))}\n\n`;
}

/** A message that no reader sees: it keeps the connection open, and says how far the stream has come. */
function heartbeat(position: number, ids: StreamIds): string {
	return `: heartbeat\nid: ${ids.write({position, eventId: null})}\n\n`;
}

/** Of one key, at once, in one process. */
const maxStreams = 10;
/** Proxies end a connection on which nothing comes, often after 30 or 60 seconds. */
const heartbeatMs = 15_000;

/** Where a stream begins: after a position, without what was seen of the next one. */
type Place = {readonly after: number; readonly seen: ReadonlySet<string>};
const nothing: Place['seen'] = new Set();

const scope = 'events:read';
const lastEventId = 'Last-Event-ID';
const streamQuery = Type.Object(
	{
		types: Type.Optional(
			Type.String({
				format: 'event-types',
				description: 'Only events of these types, with commas between them: `delivered,bounced`.',
			}),
		),
		after: Type.Optional(
			Type.String({description: `The same as the header \`${lastEventId}\`, which goes before it.`}),
		),
	},
	{additionalProperties: false},
);
const streamHeaders = Type.Object({
	[lastEventId]: Type.Optional(
		Type.String({description: 'The `id` of the last message that you got: the stream goes on behind it.'}),
	),
});

/** What happens to the messages of a workspace, as it happens. */
export function eventRoutes({auth, reader, feed, vault, tools: {clock}}: ApiParts): Routes {
	const seats = new Seats(maxStreams);
	const open = new Set<ServerResponse>();

	// Those who take nothing would hold up a stop.
	feed.closing.addEventListener('abort', () => {
		for (const response of open) {
			if (response.writableNeedDrain) {
				response.destroy();
			}
		}
	});

	/** Null: none is named. Throws `validation_failed` for a place that this store's stream does not have. */
	async function placeOf({headers, query}: FastifyRequest, ids: StreamIds): Promise<Place | null> {
		const {after} = query as {after?: string};
		const header = headers['last-event-id'];
		const given = typeof header === 'string' && header !== '' ? header : after;
		if (given === undefined) {
			return null;
		}
		const place = ids.read(given);
		if (place && place.position <= (await readLastPosition(reader))) {
			const {position, eventId} = place;
			const there = eventId === null ? undefined : await findAtPosition(reader, position);
			if (eventId === null || there === undefined) {
				return {after: position, seen: nothing};
			}
			if (there.includes(eventId)) {
				// Others may stand at the same position, behind it.
				return {after: position - 1, seen: new Set(there.slice(0, there.indexOf(eventId) + 1))};
			}
		}
		const field = given === header ? lastEventId : 'after';
		const message = 'must be the id of a message of this stream; without it the stream begins now';
		throw apiError('validation_failed', {violations: [{field, message}]});
	}

	/** Whether it is of the types that are asked for, and the key may see it. */
	function isShown(request: FastifyRequest, {type, mode}: StreamedEvent): boolean {
		const {types} = request.query as {types?: string};
		return (types?.split(',').includes(type) ?? true) && mode === (visibleMode(callerOf(request)) ?? mode);
	}

	async function* messagesOf(
		request: FastifyRequest,
		parts: AsyncIterable<StreamPart>,
		{ids, seen}: {readonly ids: StreamIds; readonly seen: Place['seen']},
	): AsyncGenerator<Buffer> {
		let wroteAt = Number.NEGATIVE_INFINITY;
		for await (const {events, position} of parts) {
			if (!(await auth.holds(request, scope))) {
				return;
			}
			const shown = events.filter(event => isShown(request, event) && !seen.has(event.id));
			if (shown.length > 0) {
				yield Buffer.from(shown.map(event => eventMessage(event, ids)).join(''));
			} else if (clock.monotonic() - wroteAt >= heartbeatMs) {
				yield Buffer.from(heartbeat(position, ids));
			} else {
				continue;
			}
			wroteAt = clock.monotonic();
		}
	}

	return api => {
		api.get(
			'/v1/events',
			{
				onRequest: auth.needs(scope),
				schema: {
					...describe({
						tag: 'Events',
						summary: 'Follow events',
						description: `Every event of the workspace’s messages as a server-sent event, from now on or from behind \`${lastEventId}\`; those of a message come in their order. A test key sees those of test mail alone. An event may come twice after a connection was lost, and none is left out. At most ${maxStreams} streams of one key. With \`Accept: text/csv\` the events that there are, from the first one or from behind \`${lastEventId}\`, oldest first.`,
						answer: [
							200,
							'Messages whose `data` is an event; the stream does not end by itself.',
							streamedEventSchema,
						],
						media: 'text/event-stream',
						csv: csvColumns.events,
					}),
					querystring: streamQuery,
					headers: streamHeaders,
				},
			},
			async (request, reply) => {
				const {keyId, workspaceId} = callerOf(request);
				const ids = streamIds(vault, workspaceId);
				const place = await placeOf(request, ids);
				// The connection ends with the stream: a stop does not wait for it. The last header is for nginx.
				const answer = (body?: Readable) =>
					reply
						.type('text/event-stream; charset=utf-8')
						.headers({'cache-control': 'no-cache', connection: 'close', 'x-accel-buffering': 'no'})
						.send(body);
				const {raw} = reply;
				if (asksForCsv(request)) {
					const pages = eventsUntilNow(reader, workspaceId, {
						after: place?.after ?? 0,
						isShown: event => isShown(request, event) && !place?.seen.has(event.id),
					});
					return await sendCsv(reply, 'events', csvOf(csvColumns.events, pages, streamedEventView));
				}
				if (request.method === 'HEAD' || raw.destroyed) {
					return answer();
				}
				const leave = seats.take(keyId);
				if (leave === undefined) {
					const message = `This key has ${maxStreams} streams open: close one first.`;
					throw apiError('rate_limited', {message, headers: retryAfter(heartbeatMs)});
				}
				open.add(raw);
				raw.once('close', () => {
					open.delete(raw);
					leave();
				});
				const parts = await feed.open(workspaceId, place?.after ?? null);
				const messages = messagesOf(request, parts, {ids, seen: place?.seen ?? nothing});
				return answer(Readable.from(messages, {objectMode: false}));
			},
		);
	};
}
