import fc from 'fast-check';
import {anyChar} from './any-char.ts';
import type {Described, Operation} from './described.ts';

/** A request as it goes over the wire. */
export type GarbageRequest = {
	readonly method: string;
	/** Path and query, ASCII. */
	readonly target: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: Uint8Array | null;
};

/** What requests are made of: some of it right, so that they come past the first check. */
export type Ingredients = {
	readonly routes: readonly Described[];
	readonly key: string;
	/** Ids and tokens that are there. */
	readonly texts: readonly string[];
};

/** Requests of every route, right in part: the nearer they are to right ones, the deeper they come. */
export function garbageRequests({routes, key, texts}: Ingredients): fc.Arbitrary<GarbageRequest> {
	const word = fc.oneof(
		{weight: 3, arbitrary: fc.constantFrom(...texts)},
		{weight: 2, arbitrary: mutated(fc.constantFrom(...texts))},
		{weight: 2, arbitrary: fc.constantFrom(...nastyTexts)},
		{weight: 2, arbitrary: fc.string({unit: anyChar, maxLength: 40})},
	);
	const values = fc.oneof({weight: 3, arbitrary: word}, {weight: 2, arbitrary: fc.jsonValue({maxDepth: 3})});
	return fc.constantFrom(...routes).chain(({method, path, operation}) =>
		fc.record({
			method: fc.oneof(
				{weight: 15, arbitrary: fc.constant(method)},
				{weight: 1, arbitrary: fc.constantFrom('GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE')},
			),
			target: targets(path, operation, word),
			headers: headers(key),
			body: bodies(operation, values),
		}),
	);
}

function targets(path: string, {parameters = []}: Operation, word: fc.Arbitrary<string>): fc.Arbitrary<string> {
	const named = parameters.filter(one => one.in === 'query').map(({name}) => name);
	const pair = fc
		.tuple(fc.oneof(fc.constantFrom('x', ...named), word), word)
		.map(([name, value]) => `${encode(name)}=${encode(value)}`);
	return fc
		.tuple(fc.array(word, {minLength: 3, maxLength: 3}), fc.array(pair, {maxLength: 3}), fc.boolean())
		.map(([parts, pairs, asked]) => {
			let part = 0;
			const filled = path.replaceAll(/\{[^}]+\}/g, () => encode(parts[part++ % parts.length] ?? ''));
			return asked && pairs.length > 0 ? `${filled}?${pairs.join('&')}` : filled;
		});
}

function headers(key: string): fc.Arbitrary<Record<string, string>> {
	const printable = fc.string({
		unit: fc
			.integer({min: 0x20, max: 0xff})
			.filter(code => code !== 0x7f)
			.map(code => String.fromCharCode(code)),
		maxLength: 300,
	});
	return fc
		.record(
			{
				authorization: fc.oneof(
					{weight: 12, arbitrary: fc.constant(`Bearer ${key}`)},
					{weight: 1, arbitrary: printable.map(text => `Bearer ${text}`)},
				),
				'content-type': fc.oneof(
					{weight: 12, arbitrary: fc.constant('application/json')},
					{
						weight: 2,
						arbitrary: fc.constantFrom(
							'application/x-www-form-urlencoded',
							'multipart/form-data; boundary=x',
							'application/json; charset=utf-16',
							'text/plain',
							';',
						),
					},
					{weight: 1, arbitrary: printable},
				),
				'idempotency-key': printable,
				'accept-language': printable,
				'user-agent': printable,
				'content-encoding': fc.constantFrom('gzip', 'identity', ''),
			},
			{requiredKeys: ['authorization', 'content-type']},
		)
		.map(({'content-encoding': encoding, 'idempotency-key': idempotency, ...rest}) => ({
			...rest,
			// Rarely, for few requests with them come further.
			...(encoding !== undefined && encoding.length === 4 && {'content-encoding': encoding}),
			...(idempotency !== undefined && idempotency.length % 5 === 0 && {'idempotency-key': idempotency}),
		}));
}

function bodies({requestBody}: Operation, values: fc.Arbitrary<unknown>): fc.Arbitrary<Uint8Array | null> {
	const media = Object.values(requestBody?.content ?? {});
	const right = media.flatMap(({example, examples, schema}) => [
		example,
		...Object.values(examples ?? {}).map(({value}) => value),
		...((schema as {examples?: unknown[]}).examples ?? []),
	]);
	const known = right.filter(example => example !== undefined);
	const text = (value: unknown) => Buffer.from(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
	const nearly =
		known.length === 0
			? fc.constant(null)
			: fc
					.tuple(fc.constantFrom(...known), fc.nat({max: 50}), values, fc.nat({max: 3}))
					.map(([example, place, value, kind]) => text(spoiled(example, place, value, kind)));
	return fc.oneof(
		{weight: 10, arbitrary: nearly},
		{weight: 2, arbitrary: fc.json().map(json => Buffer.from(json))},
		{weight: 1, arbitrary: fc.uint8Array({maxLength: 300})},
		{weight: 1, arbitrary: fc.constantFrom(...nastyBodies).map(body => Buffer.from(body))},
		{weight: 1, arbitrary: fc.constant(null)},
	);
}

/**
 * A copy of an example with one of its fields changed, added or taken away; a text that is no JSON has a character
 * changed.
 */
function spoiled(example: unknown, place: number, value: unknown, kind: number): unknown {
	if (typeof example !== 'object' || example === null) {
		const text = String(example);
		return kind === 0 ? text : text.slice(0, place) + JSON.stringify(value) + text.slice(place + kind);
	}
	const recipient = structuredClone(example) as Record<string, unknown>;
	const names = Object.keys(recipient);
	const name = names[place % names.length] ?? 'x';
	const inner = recipient[name];
	if (kind === 0) {
		return recipient;
	}
	if (kind === 1 && typeof inner === 'object' && inner !== null && Object.keys(inner).length > 0) {
		recipient[name] = spoiled(inner, place + 1, value, 2);
	} else if (kind === 2) {
		recipient[name] = value;
	} else {
		recipient[String(JSON.stringify(value)).slice(0, 20)] = value;
	}
	return recipient;
}

function mutated(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
	return fc.tuple(texts, fc.nat({max: 400}), fc.string({maxLength: 3})).map(([text, at, put]) => {
		const place = text.length === 0 ? 0 : at % text.length;
		return text.slice(0, place) + put + text.slice(place + 1);
	});
}

/** Percent-encoded where HTTP wants it, but `%` itself now and then stays as it is. */
function encode(text: string): string {
	const encoded = encodeURIComponent(text.replaceAll(/\p{Cs}/gu, '\ufffd'));
	return text.length % 7 === 3 ? encoded.replaceAll('%25', '%') : encoded;
}

const nastyTexts = [
	'',
	'.',
	'..',
	'../../etc/passwd',
	'\0',
	'%00',
	'%zz',
	'__proto__',
	'constructor',
	'2026-02-30',
	'2026-06-09T10:15:30+00:00',
	'2026-06-09T10:15:30 00:00',
	'99999-01-01',
	'1e9',
	'0',
	'101',
	'-1',
	"' or 1=1 --",
	'{{ 7 | times: 6 }}',
	'{% for x in (1..99999999) %}x{% endfor %}',
	'<script>alert(1)</script>',
	'a@b',
	'user@example.org\r\nBcc: x@example.org',
	'\u202e\u0000\ud7ff',
	'https://127.0.0.1/',
	'https://hooks.example/',
	'a'.repeat(2000),
];

const nastyBodies = [
	'',
	'null',
	'[]',
	'{"a":1e999}',
	'{"a":"\\ud800"}',
	'{"__proto__":{"x":1}}',
	'{"a":1,"a":2}',
	`${'['.repeat(3000)}`,
	`{"messages":[${'{},'.repeat(99)}{}]}`,
	`{"cc":[${'1,'.repeat(50_000)}1]}`,
	'List-Unsubscribe=One-Click',
	'--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n',
	'token=%ff%fe&action=undo',
];
