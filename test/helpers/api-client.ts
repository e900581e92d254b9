import type {AnswerCheck} from './described.ts';

/** Times in answers: UTC, whole seconds. */
export const timeShape = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

export type Answer<Body> = {
	readonly status: number;
	readonly headers: Headers;
	readonly text: string;
	/** Parsed if it is JSON. */
	readonly body: Body;
};

export type Violation = {readonly field: string; readonly message: string};

export type Failure = {
	readonly error: {
		readonly code: string;
		readonly message: string;
		readonly request_id: string;
		readonly violations?: readonly Violation[];
	};
};

export type List<Item> = {readonly data: readonly Item[]; readonly next_cursor: string | null};

type Headed = Readonly<Record<string, string>>;

export type Api = {
	readonly key: string;
	readonly url: string;
	readonly get: <Body = Failure>(path: string) => Promise<Answer<Body>>;
	/** A body that is text is sent as it is, anything else as JSON. */
	readonly post: <Body = Failure>(path: string, body: unknown, headers?: Headed) => Promise<Answer<Body>>;
	readonly patch: <Body = Failure>(path: string, body: unknown) => Promise<Answer<Body>>;
	readonly put: <Body = Failure>(path: string, body: unknown) => Promise<Answer<Body>>;
	readonly remove: <Body = Failure>(path: string) => Promise<Answer<Body>>;
	/** Any other method or header; `body: null` sends none. */
	readonly call: <Body = Failure>(
		method: string,
		path: string,
		body?: string | null,
		headers?: Headed,
	) => Promise<Answer<Body>>;
};

/**
 * A client of the API that holds every answer to what is said of all (request id, envelope, times) and to its
 * description.
 */
export function createApi(url: string, key: string, check: AnswerCheck): Api {
	async function call<Body>(method: string, path: string, body: string | null = null, headers: Headed = {}) {
		const response = await fetch(url + path, {
			method,
			body,
			redirect: 'manual',
			headers: {
				...(key === '' ? {} : {authorization: `Bearer ${key}`}),
				...(body === null ? {} : {'content-type': 'application/json'}),
				...headers,
			},
		});
		const text = await response.text();
		// A path that does not take the method may look like one with a parameter that does.
		const none = text === '' || response.status === 405;
		const described = none ? null : check(method, path, response.status, parsed(text));
		const faults = [...faultsOf(method, response, text), ...(described === null ? [] : [described])];
		if (faults.length > 0) {
			throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}\n${faults.join('\n')}`);
		}

		const answer = {
			status: response.status,
			headers: response.headers,
			text,
			body: text === '' ? null : parsed(text),
		};
		return answer as Answer<Body>;
	}

	const withBody =
		(method: string) =>
		<Body>(path: string, body: unknown, headers?: Headed) =>
			call<Body>(method, path, typeof body === 'string' ? body : JSON.stringify(body), headers);
	return {
		key,
		url,
		call,
		get: path => call('GET', path),
		post: withBody('POST'),
		patch: withBody('PATCH'),
		put: withBody('PUT'),
		remove: path => call('DELETE', path),
	};
}

function parsed(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return text;
	}
}

/** What an answer of the API has that no answer may have, or lacks. */
function faultsOf(method: string, {status, headers}: Response, text: string): string[] {
	const requestId = headers.get('x-request-id') ?? '';
	const faults = [/^req_[0-9a-hjkmnp-tv-z]{26}$/.test(requestId) ? '' : `X-Request-Id is ${requestId}`];
	if (status === 204 || method === 'HEAD') {
		faults.push(text === '' ? '' : 'a body where none may be');
	} else if (!headers.get('content-type')?.startsWith('application/json')) {
		faults.push(`Content-Type is ${headers.get('content-type')}`);
	} else if (status === 401) {
		faults.push(text === '{"error":"Unauthorized"}' ? '' : 'another body than 401 has');
	} else if (status >= 400) {
		faults.push(...envelopeFaults(parsed(text) as Failure, requestId));
	} else {
		faults.push(...timesIn(parsed(text)).map(time => (timeShape.test(time) ? '' : `the time ${time}`)));
	}

	return faults.filter(fault => fault !== '');
}

function envelopeFaults(failure: Failure, requestId: string): string[] {
	const {code, message, request_id, violations, ...more} = failure.error ?? {};
	return [
		Object.keys(failure).join() === 'error' ? '' : 'fields besides error',
		typeof code === 'string' && /^[a-z_]+$/.test(code) ? '' : 'no code',
		typeof message === 'string' && message.length > 0 ? '' : 'no message',
		request_id === requestId ? '' : 'another request_id than the header has',
		Object.keys(more).length === 0 ? '' : `fields besides: ${Object.keys(more).join()}`,
		(code === 'validation_failed') === (violations !== undefined) ? '' : 'violations and code do not fit',
		...(violations ?? []).map(({field, message: said, ...rest}) =>
			typeof field === 'string' && typeof said === 'string' && said !== '' && Object.keys(rest).length === 0
				? ''
				: 'a violation without field or message',
		),
	];
}

/** Every text that begins as a time does, but for what the caller gave. */
function timesIn(value: unknown): string[] {
	if (typeof value === 'string') {
		return /^\d{4}-\d\d-\d\d[T ]/.test(value) ? [value] : [];
	}

	return typeof value === 'object' && value !== null
		? Object.entries(value).flatMap(([name, inner]) =>
				['data', 'metadata'].includes(name) && !Array.isArray(inner) ? [] : timesIn(inner),
			)
		: [];
}
