import {randomUUID} from 'node:crypto';
import {setTimeout as wait} from 'node:timers/promises';
import {MailctlError, type Violation} from './error.ts';

export type ClientOptions = {
	/** The URL of mailctl, such as `https://mail.example.com`. */
	readonly baseUrl: string;
	/** `key_live_…` or `key_test_…` */
	readonly apiKey: string;
	/** How many times a failed call is retried; 2 by default. */
	readonly maxRetries?: number;
	/** The time limit of one attempt in milliseconds; 30,000 by default. */
	readonly timeoutMs?: number;
};

export type CallOptions = {
	/** Aborts the call and its retries. */
	readonly signal?: AbortSignal | undefined;
};

export type SendOptions = CallOptions & {
	/**
	 * Calls with the same key create only one message, even if another process repeats them. Random by default.
	 */
	readonly idempotencyKey?: string | undefined;
};

export type StreamOptions = CallOptions & {
	/** Resumes the stream after the item that had this id. By default, only new items arrive. */
	readonly lastEventId?: string | undefined;
};

/** An item of a stream, with the `lastEventId` that resumes the stream after it. */
export type Streamed<Item> = {readonly event: Item; readonly lastEventId: string};

/** A page of a list. `next_cursor` is `null` on the last page. */
export type Page<Item> = {readonly data: readonly Item[]; readonly next_cursor: string | null};

/** A list. Iterate over all its items, or request single pages. */
export type Items<Item> = AsyncIterable<Item> & {
	/** Returns the page that follows this cursor, or the first page without one. */
	readonly page: (cursor?: string) => Promise<Page<Item>>;
};

type Query = Readonly<Record<string, unknown>>;

type Call = {
	readonly query?: Query;
	readonly body?: unknown;
	/** The media type of a body that is text; `application/json` by default. */
	readonly media?: string;
	/** Whether the route accepts an Idempotency-Key. */
	readonly once?: boolean;
};

type Kind = 'json' | 'text' | 'bytes' | 'nothing';

const maxWaitMs = 60_000;
/** A stream sends heartbeats every 15 s, so three are missing after this time. */
const silenceMs = 45_000;
/** Temporary errors of the server or of a proxy in front of it. */
const temporaryStatuses: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

/**
 * Makes the requests of the client, whose methods for each route are generated from the OpenAPI document. Failed calls
 * are retried if repeating them is safe. This folder relies only on `fetch` and Node's crypto, imports nothing else of
 * mailctl, and never logs.
 */
export class Requests {
	readonly #options: Required<ClientOptions>;

	constructor({baseUrl, apiKey, maxRetries = 2, timeoutMs = 30_000}: ClientOptions) {
		this.#options = {baseUrl: baseUrl.replace(/\/+$/, ''), apiKey, maxRetries, timeoutMs};
	}

	/** Calls a route. Rejects with a MailctlError, or with the reason of the signal. */
	protected async call<Value>(
		method: string,
		path: string,
		kind: Kind,
		{query = {}, body, media = 'application/json', once = false}: Call,
		{signal, idempotencyKey}: SendOptions,
	): Promise<Value> {
		// URL encoding does not change an id such as `..`, which would reach another route.
		if (/\/\.{0,2}(?=\/|$)/.test(path)) {
			const message = `The id in ${path} must not be empty, "." or "..".`;
			throw new MailctlError(message, {code: 'not_found', status: 404});
		}
		const {baseUrl, apiKey, maxRetries, timeoutMs} = this.#options;
		const headers = new Headers({authorization: `Bearer ${apiKey}`});
		if (body !== undefined) {
			headers.set('content-type', media);
		}
		if (once) {
			headers.set('idempotency-key', idempotencyKey ?? randomUUID());
		}
		const payload = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body);
		// A call refused by the rate limit had no effect. Any other call may have succeeded, and is repeated only if
		// that is harmless.
		const isRepeatable = method !== 'POST' || once;
		for (let retry = 0; ; retry += 1) {
			const timeout = AbortSignal.timeout(timeoutMs);
			const result = await fetch(`${baseUrl}${path}${queryText(query)}`, {
				method,
				headers,
				body: payload,
				redirect: 'error',
				signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
			})
				.then(response => read<Value>(response, kind))
				.catch((error: unknown) => toFailure(error, `${method} ${baseUrl}${path}`));
			if (result.ok) {
				return result.value;
			}
			signal?.throwIfAborted();
			const {error, retryAfterMs} = result;
			const pauseMs = retryAfterMs ?? Math.random() * 500 * 2 ** retry;
			const canRetry =
				error.status === 429 || (isRepeatable && (error.status === 0 || temporaryStatuses.has(error.status)));
			if (!canRetry || retry >= maxRetries || pauseMs > maxWaitMs) {
				throw error;
			}
			await wait(pauseMs, undefined, signal ? {signal} : {});
		}
	}

	/**
	 * Follows a stream as long as you iterate. A lost connection is reopened, and the stream resumes after the last
	 * item; one item may arrive twice. Rejects with a MailctlError if the stream is refused, or with the reason of the
	 * signal.
	 */
	protected async *stream<Item>(
		path: string,
		{signal, lastEventId, ...query}: StreamOptions & Query,
	): AsyncGenerator<Streamed<Item>, never> {
		const {baseUrl, apiKey, timeoutMs} = this.#options;
		const url = `${baseUrl}${path}${queryText(query)}`;
		let lastId = lastEventId;
		for (let failures = 0; ; failures += 1) {
			const headers = {authorization: `Bearer ${apiKey}`, ...(lastId !== undefined && {'last-event-id': lastId})};
			const opened = await openStream(url, headers, timeoutMs, signal);
			if (opened.ok) {
				for await (const {id, data} of readServerSentEvents(opened.value, silenceMs)) {
					failures = 0;
					lastId = id ?? lastId;
					if (data !== '') {
						yield {event: JSON.parse(data) as Item, lastEventId: lastId ?? ''};
					}
				}
			} else if (opened.error.status !== 0 && !temporaryStatuses.has(opened.error.status)) {
				throw opened.error;
			}
			signal?.throwIfAborted();
			const pauseMs = Math.random() * 500 * 2 ** Math.min(failures, 6);
			await wait(opened.ok ? pauseMs : (opened.retryAfterMs ?? pauseMs), undefined, signal ? {signal} : {});
		}
	}

	/** Returns a list that is read page by page. */
	protected pages<Item>(path: string, {query = {}}: Call, options: CallOptions): Items<Item> {
		const page = (cursor?: string) =>
			this.call<Page<Item>>('GET', path, 'json', {query: {...query, cursor}}, options);
		return {
			page,
			async *[Symbol.asyncIterator]() {
				let cursor: string | undefined;
				do {
					const {data, next_cursor} = await page(cursor);
					yield* data;
					cursor = next_cursor ?? undefined;
				} while (cursor !== undefined);
			},
		};
	}
}

type CallResult<Value> =
	| {readonly ok: true; readonly value: Value}
	| {readonly ok: false; readonly error: MailctlError; readonly retryAfterMs: number | null};

/** `{metadata: {order_id: '1042'}}` → `?metadata[order_id]=1042` */
function queryText(query: Query): string {
	const parameters = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) {
		if (typeof value === 'object' && value !== null) {
			for (const [key, item] of Object.entries(value)) {
				parameters.append(`${name}[${key}]`, String(item));
			}
		} else if (value !== undefined && value !== null) {
			parameters.append(name, String(value));
		}
	}
	const text = parameters.toString();
	return text === '' ? '' : `?${text}`;
}

async function openStream(
	url: string,
	headers: Readonly<Record<string, string>>,
	timeoutMs: number,
	signal: AbortSignal | undefined,
): Promise<CallResult<ReadableStream<Uint8Array>>> {
	const timeout = new AbortController();
	const timer = setTimeout(() => timeout.abort(), timeoutMs);
	try {
		const aborted = signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal;
		const response = await fetch(url, {headers, redirect: 'error', signal: aborted});
		if (!response.ok) {
			return toRefusal(response, await response.text());
		}
		const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
		return isStream && response.body
			? {ok: true, value: response.body}
			: {ok: false, error: toForeignError(response, undefined), retryAfterMs: null};
	} catch (error) {
		return toFailure(error, `GET ${url}`);
	} finally {
		clearTimeout(timer);
	}
}

async function read<Value>(response: Response, kind: Kind): Promise<CallResult<Value>> {
	if (!response.ok) {
		return toRefusal(response, await response.text());
	}
	const bytes = new Uint8Array(await response.arrayBuffer());
	const text = () => new TextDecoder().decode(bytes);
	switch (kind) {
		case 'nothing':
			return {ok: true, value: undefined as Value};
		case 'bytes':
			return {ok: true, value: bytes as Value};
		case 'text':
			return {ok: true, value: text() as Value};
		case 'json':
			try {
				return {ok: true, value: JSON.parse(text()) as Value};
			} catch (cause) {
				return {ok: false, error: toForeignError(response, cause), retryAfterMs: null};
			}
	}
}

/** Returns the error for a response that is not from mailctl: from a proxy, or because `baseUrl` is wrong. */
function toForeignError({url, status}: Response, cause: unknown): MailctlError {
	const message = `${url} responded with ${status} and a body that is not from mailctl: check baseUrl and the proxy`;
	return new MailctlError(message, {status, code: 'bad_answer', cause});
}

type Envelope = {error: 'Unauthorized' | {code: string; message: string; violations?: Violation[]}};

function toRefusal(response: Response, text: string): CallResult<never> {
	const {status, headers} = response;
	const seconds = /^\d+$/.exec(headers.get('retry-after') ?? '');
	const retryAfterMs = seconds ? Number(seconds[0]) * 1000 : null;
	const requestId = headers.get('x-request-id');
	try {
		const {error} = JSON.parse(text) as Envelope;
		const {
			code,
			message,
			violations = [],
		} = error === 'Unauthorized' ? {code: 'unauthorized', message: 'The API key is not valid here.'} : error;
		return {ok: false, error: new MailctlError(message, {status, code, requestId, violations}), retryAfterMs};
	} catch (cause) {
		return {ok: false, error: toForeignError(response, cause), retryAfterMs};
	}
}

function toFailure(cause: unknown, request: string): CallResult<never> {
	const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : String(cause);
	const error = new MailctlError(`${request} got no response: ${reason}`, {code: 'no_answer', cause});
	return {ok: false, error, retryAfterMs: null};
}

/** A server-sent event. If `data` is empty, it only reports the position of the stream. */
export type ServerSentEvent = {readonly id: string | null; readonly data: string};

/**
 * Returns a parser of server-sent events (HTML Standard, "Server-sent events"), which takes pieces of the stream and
 * returns the events that each piece completes.
 */
export function createEventParser(): (text: string) => ServerSentEvent[] {
	let rest = '';
	let id: string | null = null;
	let data: string[] = [];
	return text => {
		const lines = `${rest}${text}`.split('\n');
		rest = lines.pop() ?? '';
		const messages: ServerSentEvent[] = [];
		for (const line of lines.map(text => text.replace(/\r$/, ''))) {
			const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
			if (line === '') {
				if (id !== null || data.length > 0) {
					messages.push({id, data: data.join('\n')});
				}
				[id, data] = [null, []];
			} else if (name === 'id') {
				id = value;
			} else if (name === 'data') {
				data.push(value);
			}
		}
		return messages;
	};
}

/**
 * Yields the events of a response. Ends when the connection closes, or if nothing arrives for `silenceMs` while the
 * caller is waiting.
 */
export async function* readServerSentEvents(
	body: ReadableStream<Uint8Array>,
	silenceMs: number,
): AsyncGenerator<ServerSentEvent> {
	const [reader, decoder, read] = [body.getReader(), new TextDecoder(), createEventParser()];
	const end = () => reader.cancel().catch(() => undefined);
	try {
		for (;;) {
			const timer = setTimeout(end, silenceMs);
			const piece = await reader.read().finally(() => clearTimeout(timer));
			if (piece.done) {
				return;
			}
			yield* read(decoder.decode(piece.value, {stream: true}));
		}
	} catch {
		// The connection was lost, or the caller's signal closed it.
	} finally {
		await end();
	}
}
