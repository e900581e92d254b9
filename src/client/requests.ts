import {randomUUID} from 'node:crypto';
import {setTimeout as wait} from 'node:timers/promises';
import {MailctlError, type Violation} from './error.ts';

export type ClientOptions = {
	/** Where mailctl is, such as `https://mail.example.com`. */
	readonly baseUrl: string;
	/** `key_live_…` or `key_test_…` */
	readonly apiKey: string;
	/** How often a call that failed is repeated; 2 by default. */
	readonly maxRetries?: number;
	/** One try, milliseconds; 30,000 by default. */
	readonly timeoutMs?: number;
};

export type CallOptions = {
	/** Ends the call, its retries too. */
	readonly signal?: AbortSignal | undefined;
};

export type SendOptions = CallOptions & {
	/**
	 * Makes one message however often the call is repeated, also by another process. By default a random one for each
	 * call.
	 */
	readonly idempotencyKey?: string | undefined;
};

export type StreamOptions = CallOptions & {
	/** Where the stream goes on: behind the item that came with it. By default it begins now. */
	readonly lastEventId?: string | undefined;
};

/** What a stream sends, and the `lastEventId` with which another stream goes on behind it. */
export type Streamed<Item> = {readonly event: Item; readonly lastEventId: string};

/** A page of a list; `next_cursor` null: it is the last one. */
export type Page<Item> = {readonly data: readonly Item[]; readonly next_cursor: string | null};

/** A list: iterate over all its items, or ask for one page. */
export type Items<Item> = AsyncIterable<Item> & {
	/** The page after the one with this cursor; without a cursor the first. */
	readonly page: (cursor?: string) => Promise<Page<Item>>;
};

type Query = Readonly<Record<string, unknown>>;

type Call = {
	readonly query?: Query;
	readonly body?: unknown;
	/** Of a body that is text; `application/json` by default. */
	readonly media?: string;
	/** The route takes an Idempotency-Key. */
	readonly once?: boolean;
};

type Kind = 'json' | 'text' | 'bytes' | 'nothing';

const maxWaitMs = 60_000;
/** Three heartbeats of a stream were due. */
const silenceMs = 45_000;
/** The server, or a proxy before it, could not do it now. */
const passing: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

/** Makes calls of the API, and repeats those that failed where that cannot do a thing twice. */
export class Requests {
	readonly #options: Required<ClientOptions>;

	constructor({baseUrl, apiKey, maxRetries = 2, timeoutMs = 30_000}: ClientOptions) {
		this.#options = {baseUrl: baseUrl.replace(/\/+$/, ''), apiKey, maxRetries, timeoutMs};
	}

	/** Calls a route; rejects with a MailctlError, or with the reason of the signal. */
	protected async call<Answer>(
		method: string,
		path: string,
		kind: Kind,
		{query = {}, body, media = 'application/json', once = false}: Call,
		{signal, idempotencyKey}: SendOptions,
	): Promise<Answer> {
		// An id such as `..` is encoded as it is, and would reach another route.
		if (/\/\.{0,2}(?=\/|$)/.test(path)) {
			throw new MailctlError(`${path} has an empty id, or "." or ".." as an id.`, {
				code: 'not_found',
				status: 404,
			});
		}
		const {baseUrl, apiKey, maxRetries, timeoutMs} = this.#options;
		const headers = new Headers({authorization: `Bearer ${apiKey}`});
		if (body !== undefined) {
			headers.set('content-type', media);
		}
		if (once) {
			headers.set('idempotency-key', idempotencyKey ?? randomUUID());
		}
		const sent = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body);
		// What was refused by the rate limit was not done. All else may have been, and is repeated only where that is
		// harmless.
		const harmless = method !== 'POST' || once;
		for (let retry = 0; ; retry += 1) {
			const limit = AbortSignal.timeout(timeoutMs);
			const answered = await fetch(`${baseUrl}${path}${queryText(query)}`, {
				method,
				headers,
				body: sent,
				redirect: 'error',
				signal: signal ? AbortSignal.any([signal, limit]) : limit,
			})
				.then(response => read<Answer>(response, kind))
				.catch((error: unknown) => noAnswer(error, `${method} ${baseUrl}${path}`));
			if (answered.ok) {
				return answered.answer;
			}
			signal?.throwIfAborted();
			const {error, retryAfterMs} = answered;
			const pauseMs = retryAfterMs ?? Math.random() * 500 * 2 ** retry;
			const isPassing =
				error.status === 0 ? harmless : passing.has(error.status) && (harmless || error.status === 429);
			if (!isPassing || retry >= maxRetries || pauseMs > maxWaitMs) {
				throw error;
			}
			await wait(pauseMs, undefined, signal ? {signal} : {});
		}
	}

	/**
	 * Follows a stream, for as long as you iterate. A connection that is lost is opened again, and the stream goes on
	 * behind the last item; one item may come twice. Rejects with a MailctlError where that is refused, or with the
	 * reason of the signal.
	 */
	protected async *stream<Item>(
		path: string,
		{signal, lastEventId, ...query}: StreamOptions & Query,
	): AsyncGenerator<Streamed<Item>, never> {
		const {baseUrl, apiKey, timeoutMs} = this.#options;
		const url = `${baseUrl}${path}${queryText(query)}`;
		let last = lastEventId;
		for (let failures = 0; ; failures += 1) {
			const headers = {authorization: `Bearer ${apiKey}`, ...(last !== undefined && {'last-event-id': last})};
			const opened = await openStream(url, headers, timeoutMs, signal);
			if (opened.ok) {
				for await (const {id, data} of messagesOf(opened.answer, silenceMs)) {
					failures = 0;
					last = id ?? last;
					if (data !== '') {
						yield {event: JSON.parse(data) as Item, lastEventId: last ?? ''};
					}
				}
			} else if (opened.error.status !== 0 && !passing.has(opened.error.status)) {
				throw opened.error;
			}
			signal?.throwIfAborted();
			const pauseMs = Math.random() * 500 * 2 ** Math.min(failures, 6);
			await wait(opened.ok ? pauseMs : (opened.retryAfterMs ?? pauseMs), undefined, signal ? {signal} : {});
		}
	}

	/** Reads a list page by page. */
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

type Answered<Answer> =
	| {readonly ok: true; readonly answer: Answer}
	| {readonly ok: false; readonly error: MailctlError; readonly retryAfterMs: number | null};

/** `{metadata: {order_id: '1042'}}` → `?metadata[order_id]=1042` */
function queryText(query: Query): string {
	const parameters = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) {
		if (typeof value === 'object' && value !== null) {
			for (const [key, one] of Object.entries(value)) {
				parameters.append(`${name}[${key}]`, String(one));
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
): Promise<Answered<ReadableStream<Uint8Array>>> {
	const limit = new AbortController();
	const timer = setTimeout(() => limit.abort(), timeoutMs);
	try {
		const ends = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal;
		const response = await fetch(url, {headers, redirect: 'error', signal: ends});
		if (!response.ok) {
			return refusalOf(response, await response.text());
		}
		const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
		return isStream && response.body
			? {ok: true, answer: response.body}
			: {ok: false, error: foreign(response, undefined), retryAfterMs: null};
	} catch (error) {
		return noAnswer(error, `GET ${url}`);
	} finally {
		clearTimeout(timer);
	}
}

async function read<Answer>(response: Response, kind: Kind): Promise<Answered<Answer>> {
	if (!response.ok) {
		return refusalOf(response, await response.text());
	}
	const bytes = new Uint8Array(await response.arrayBuffer());
	const text = () => new TextDecoder().decode(bytes);
	switch (kind) {
		case 'nothing':
			return {ok: true, answer: undefined as Answer};
		case 'bytes':
			return {ok: true, answer: bytes as Answer};
		case 'text':
			return {ok: true, answer: text() as Answer};
		case 'json':
			try {
				return {ok: true, answer: JSON.parse(text()) as Answer};
			} catch (cause) {
				return {ok: false, error: foreign(response, cause), retryAfterMs: null};
			}
	}
}

/** A proxy answered, or the address is not that of mailctl. */
function foreign({url, status}: Response, cause: unknown): MailctlError {
	const message = `${url} answered ${status} with what mailctl never writes: check baseUrl and the proxy`;
	return new MailctlError(message, {status, code: 'bad_answer', cause});
}

type Envelope = {error: 'Unauthorized' | {code: string; message: string; violations?: Violation[]}};

function refusalOf(response: Response, text: string): Answered<never> {
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
		return {ok: false, error: foreign(response, cause), retryAfterMs};
	}
}

function noAnswer(cause: unknown, what: string): Answered<never> {
	const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : String(cause);
	const error = new MailctlError(`${what} got no answer: ${reason}`, {code: 'no_answer', cause});
	return {ok: false, error, retryAfterMs: null};
}

/** A server-sent event; `data` empty: it only says how far the stream has come. */
export type StreamMessage = {readonly id: string | null; readonly data: string};

/**
 * Reads a stream of server-sent events (HTML Standard, "Server-sent events") piece by piece: the messages that a piece
 * completes.
 */
export function createMessageReader(): (text: string) => StreamMessage[] {
	let rest = '';
	let id: string | null = null;
	let data: string[] = [];
	return text => {
		const lines = `${rest}${text}`.split('\n');
		rest = lines.pop() ?? '';
		const messages: StreamMessage[] = [];
		for (const line of lines.map(one => one.replace(/\r$/, ''))) {
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
 * The messages of an answer. It ends with the connection, and where nothing comes for that many milliseconds while the
 * caller waits.
 */
export async function* messagesOf(body: ReadableStream<Uint8Array>, silenceMs: number): AsyncGenerator<StreamMessage> {
	const [reader, decoder, read] = [body.getReader(), new TextDecoder(), createMessageReader()];
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
		// The connection was lost, or the caller's signal ended it.
	} finally {
		await end();
	}
}
