import test from 'ava';
import fc from 'fast-check';
import {createBody} from '../../src/api/body.ts';
import {type ItemLimits, type JsonLimits, JsonScan, oversized, parseJson, parseLargeJson} from '../../src/api/json.ts';

const many = 1_000_000;
const items: ItemLimits = {list: 'messages', max: 100, values: many, bytes: many};

/** Scans a body that arrives in pieces of this length. */
function scan(text: string, limits: JsonLimits, pieceLength = many) {
	const bytes = Buffer.from(text);
	const scan = new JsonScan(limits);
	const body = createBody();
	for (let at = 0; at < bytes.length; at += pieceLength) {
		const piece = bytes.subarray(at, at + pieceLength);
		body.add(piece);
		const fault = scan.feed(piece);
		if (fault) {
			return {fault, seen: scan.result(), body};
		}
	}
	return {fault: null, seen: scan.result(), body};
}

const fieldOf = (text: string, limits: JsonLimits) => {
	const {fault} = scan(text, limits);
	return fault && 'violation' in fault ? fault.violation.field : null;
};

/** Counts the names and list elements of a value, as a person would. */
function countValues(value: unknown): number {
	if (typeof value !== 'object' || value === null) {
		return 0;
	}
	return Object.values(value).reduce((sum, one) => sum + 1 + countValues(one), 0);
}

const layouts = fc.constantFrom(undefined, 1, '\t');
const isTame = (value: unknown) => !/"__proto__"|"prototype"/.test(JSON.stringify(value));
const anything = fc.oneof(
	fc.jsonValue({maxDepth: 6}),
	fc.array(fc.constantFrom([], {}, '', '[', ',', '\\"', {a: []}, [[]], [{}], null)),
);

test('counts the values that JSON.parse creates, in any formatting and chunk length', t => {
	fc.assert(
		fc.property(anything, layouts, fc.integer({min: 1, max: 20}), (value, space, pieceLength) => {
			const text = JSON.stringify(value, null, space);
			const {fault, seen} = scan(text, {values: many}, pieceLength);
			t.is(fault, null);
			t.is(seen.values, countValues(JSON.parse(text)), text);
		}),
		{numRuns: 2000},
	);
});

test('refuses the first value over the limit, and none before it', t => {
	fc.assert(
		fc.property(anything, value => {
			const text = JSON.stringify(value);
			const n = countValues(JSON.parse(text));
			t.is(fieldOf(text, {values: n}), null);
			if (n > 0) {
				t.is(fieldOf(text, {values: n - 1}), 'body');
			}
		}),
	);
});

test('names the item with too many values, even if it is the first or the last', t => {
	const limits = {values: 100, items: {...items, values: 3}};
	t.is(fieldOf('{"messages":[{"a":1,"b":2,"c":3},[1,[2]],[{"a":[]},1]]}', limits), null);
	t.is(fieldOf('{"messages":[{"a":1,"b":2,"c":3,"d":4}]}', limits), 'messages[0]');
	t.is(fieldOf('{"messages":[1,2,[[[[1]]]]]}', limits), 'messages[2]');
	t.is(fieldOf('{"messages":[1,2,3,4,5,6,7]}', limits), null);
	t.is(fieldOf('{"a":1,"b":2,"messages":[[1]]}', limits), null);
	t.is(fieldOf('{"a":1,"b":2,"c":3,"messages":[]}', limits), 'body');
	t.is(fieldOf('{"messages":[[1,2],[1,2]],"a":1,"b":2}', limits), null);
	t.is(fieldOf('{"messages":[[1,2],[1,2]],"a":1,"b":2,"c":3}', limits), 'body');
	t.is(fieldOf(`{"messages":[${'[1,2],'.repeat(33)}[1,2]]}`, limits), 'messages');
});

async function readBoth(text: string, limits: ItemLimits, pieceLength: number) {
	const {fault, seen, body} = scan(text, {values: many, items: limits}, pieceLength);
	if (fault) {
		return null;
	}
	return {whole: parseJson(body.all(), seen), inParts: await parseLargeJson(body, seen, limits.list)};
}

const batch = fc.oneof(
	fc.record({messages: fc.array(fc.jsonValue({maxDepth: 3}), {maxLength: 8})}),
	fc.record({a: fc.jsonValue({maxDepth: 2}), messages: fc.array(fc.string()), b: fc.array(fc.nat())}),
	fc.record({b: fc.array(fc.nat()), messages: fc.array(fc.dictionary(fc.string(), fc.string()))}),
	fc.record({messages: fc.jsonValue({maxDepth: 3})}),
	fc.jsonValue({maxDepth: 4}),
	fc.tuple(fc.constant('messages'), fc.array(fc.nat(), {minLength: 1})),
);

test('reading in parts gives the same value as reading at once', async t => {
	await fc.assert(
		fc.asyncProperty(batch, layouts, fc.integer({min: 1, max: 30}), async (value, space, pieceLength) => {
			if (isTame(value)) {
				const text = JSON.stringify(value, null, space);
				const both = await readBoth(text, items, pieceLength);
				t.deepEqual(both, {
					whole: {ok: true, value: JSON.parse(text)},
					inParts: {ok: true, value: JSON.parse(text)},
				});
			}
		}),
		{numRuns: 500},
	);
});

test('reading in parts finds the same errors as reading at once', async t => {
	const broken = fc.tuple(
		batch,
		fc.nat(),
		fc.constantFrom('', ',', ']', '}', '[', '{', '"', '\\', ':', '1', ' ', '"a":1,'),
	);
	await fc.assert(
		fc.asyncProperty(broken, async ([value, where, put]) => {
			const text = JSON.stringify(value);
			const at = where % (text.length + 1);
			const both = await readBoth(text.slice(0, at) + put + text.slice(at + 1), items, many);
			if (both) {
				t.is(both.inParts.ok, both.whole.ok, text.slice(0, at) + put + text.slice(at + 1));
			}
		}),
		{numRuns: 2000},
	);
});

test('reading in parts finds repeated names across the parts', async t => {
	const faultOf = async (text: string) => {
		const both = await readBoth(text, items, many);
		return both && !both.inParts.ok ? both.inParts.problem : null;
	};
	t.is(await faultOf('{"messages":[{"a":1},{"a":1}]}'), null);
	t.regex(String(await faultOf('{"messages":[{"a":1},{"a":1,"a":1}]}')), /twice/);
	t.regex(String(await faultOf('{"messages":[1],"messages":[1]}')), /twice/);
	t.regex(String(await faultOf('{"messages":[1],"mess\\u0061ges":0}')), /twice/);
	t.regex(String(await faultOf('{"messages":[1,{"__proto__":1}]}')), /not allowed/);
	t.regex(String(await faultOf('{"__proto__":[1,2]}')), /not allowed/);
	t.regex(String(await faultOf('{"messages":[1,]}')), /not valid JSON/);
	t.regex(String(await faultOf('{"messages":[1}')), /not valid JSON/);
});

test('skips items beyond the maximum and items that are too large', async t => {
	const text = JSON.stringify({messages: [{a: 1}, {b: 'x'.repeat(50)}, {c: 1}, {d: 1}, {e: 1}]});
	const both = await readBoth(text, {...items, max: 3, bytes: 20}, 7);
	t.deepEqual(both?.inParts, {ok: true, value: {messages: [{a: 1}, oversized, {c: 1}, null, null]}});
});

test('the scan never throws, whatever the bytes', async t => {
	const bytes = fc.oneof(
		fc.uint8Array({maxLength: 64}),
		fc.array(fc.constantFrom(...Buffer.from('[]{},:"\\ a1')), {maxLength: 64}).map(list => Uint8Array.from(list)),
	);
	await fc.assert(
		fc.asyncProperty(bytes, async bytes => {
			const scan = new JsonScan({values: 10, items: {...items, max: 2, values: 4, bytes: 10}});
			const body = createBody();
			body.add(Buffer.from(bytes));
			if (scan.feed(Buffer.from(bytes)) === null) {
				t.is(typeof (await parseLargeJson(body, scan.result(), 'messages')).ok, 'boolean');
			} else {
				t.pass();
			}
		}),
		{numRuns: 3000},
	);
});
