import test from 'ava';
import fc from 'fast-check';
import {JsonScan, parseJson as parseScanned} from '../../src/api/json.ts';

function parseJson(bytes: Uint8Array) {
	const scan = new JsonScan({values: 1_000_000});
	const fault = scan.feed(Buffer.from(bytes));
	return fault && 'message' in fault
		? {ok: false as const, problem: fault.message}
		: parseScanned(bytes, scan.result());
}

const parse = (text: string) => parseJson(Buffer.from(text));
const faultOf = (text: string | Uint8Array) => {
	const parsed = typeof text === 'string' ? parse(text) : parseJson(text);
	return parsed.ok ? null : parsed.problem;
};

const refused: ReadonlyArray<[title: string, body: string | Uint8Array, fault: RegExp]> = [
	['an empty body', '', /not valid JSON/],
	['half an object', '{"a":', /not valid JSON/],
	['a trailing comma', '[1,]', /not valid JSON/],
	['single quotes', "{'a':1}", /not valid JSON/],
	['an open string', '"abc', /not valid JSON/],
	['two byte order marks', '\ufeff\ufeff{}', /not valid JSON/],
	['a raw NUL', '"\0"', /not valid JSON/],
	['invalid UTF-8', Uint8Array.of(0x22, 0xff, 0x22), /not valid UTF-8/],
	['an overlong slash', Uint8Array.of(0x22, 0xc0, 0xaf, 0x22), /not valid UTF-8/],
	['a surrogate in UTF-8', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22), /not valid UTF-8/],
	['a repeated name', '{"a":1,"b":2,"a":3}', /same name twice/],
	['a repeated name, spelled differently', '{"a":1,"\\u0061":2}', /same name twice/],
	['a repeated name, deep inside', '[{"x":[{"b":{"to":1,"to":1}}]}]', /same name twice/],
	['a repeated name after a string full of quotes', '{"a":"\\\\\\":\\\\","a":1}', /same name twice/],
	['__proto__', '{"__proto__":{"admin":true}}', /not allowed/],
	['__proto__ in an array in an object', '{"a":[{"__proto__":1}]}', /not allowed/],
	['__proto__ in disguise', '{"\\u005f_proto__":1}', /not allowed/],
	['constructor.prototype', '{"constructor":{"prototype":{"x":1}}}', /not allowed/],
	['33 levels of arrays', '['.repeat(33) + ']'.repeat(33), /32 levels/],
	['33 levels of objects', `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`, /32 levels/],
	['100,000 open brackets', '['.repeat(100_000), /32 levels/],
];
for (const [title, body, fault] of refused) {
	test(`refuses ${title}`, t => {
		t.regex(faultOf(body) ?? '', fault);
	});
}

test('skips a leading byte order mark, but keeps one in a string', t => {
	t.deepEqual(parse('\ufeff{"a":"\ufeffb"}'), {ok: true, value: {a: '\ufeffb'}});
});

test('accepts 32 levels, and brackets, colons and braces in strings', t => {
	t.is(faultOf('['.repeat(32) + ']'.repeat(32)), null);
	t.is(faultOf(JSON.stringify({a: '['.repeat(100), b: ':{"a":1}\\', c: '\\"', 'd:"': ':'})), null);
	t.is(faultOf('{"constructor":{"name":1},"prototype":2}'), null);
});

test('does not pollute the prototype of objects', t => {
	parse('{"__proto__":{"polluted":1}}');
	parse('{"constructor":{"prototype":{"polluted":1}}}');
	t.false('polluted' in {});
});

const hasForbidden = (value: unknown) => /"__proto__"|"prototype"/.test(JSON.stringify(value));

test('reads whatever JSON.stringify writes, in any formatting', t => {
	fc.assert(
		fc.property(fc.jsonValue({maxDepth: 8}), fc.constantFrom(undefined, 1, '\t'), (value, space) => {
			if (!hasForbidden(value)) {
				const text = JSON.stringify(value, null, space);
				t.deepEqual(parse(text), {ok: true, value: JSON.parse(text)});
			}
		}),
		{numRuns: 1000},
	);
});

// No name that needs an escape: JSON.parse of Node 24.21 may confuse it with a name of an earlier object.
const name = fc
	.oneof(fc.string(), fc.constantFrom('a', ':', '{', 'b:'))
	.filter(text => JSON.stringify(text) === `"${text}"`);

test('finds a repeated name anywhere in the body', t => {
	fc.assert(
		fc.property(fc.uniqueArray(name, {minLength: 1, maxLength: 6}), fc.nat(), fc.nat(), (names, which, where) => {
			const pairs = names.map(name => `${JSON.stringify(name)}:${JSON.stringify({[`x${name}`]: names})}`);
			const safe = !names.includes('__proto__') && !names.includes('constructor');
			if (safe) {
				t.is(faultOf(`[{${pairs.join(',')}}]`), null);
				pairs.splice(where % (pairs.length + 1), 0, pairs[which % pairs.length] as string);
				t.regex(faultOf(`[{${pairs.join(', ')}}]`) ?? '', /same name twice/);
			}
		}),
		{numRuns: 1000},
	);
});

test('never throws on arbitrary bytes', t => {
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 64}), bytes => {
			t.is(typeof parseJson(bytes).ok, 'boolean');
		}),
		{numRuns: 2000},
	);
});
