import test from 'ava';
import fc from 'fast-check';
import {storeTime} from '../../../src/kit/time.ts';
import {extensionsAt, readParameters} from '../../../src/send/submission/parameters.ts';

const now = Date.parse('2026-06-09T10:00:00.500Z');
const month = 30 * 86_400;

/** The options set by the parameters, or the code of the refusal. */
function reading(args: Record<string, string | true>) {
	const read = readParameters(args, now);
	return read.ok ? read.envelope : read.code;
}

test('MT-PRIORITY accepts only numbers from -9 to 9', t => {
	t.deepEqual(reading({}), {});
	t.is(reading({'MT-PRIORITY': true}), 501);
	fc.assert(
		fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[-+]?\d{1,3}$/)), text => {
			const n = /^-?\d$/.test(text) && text !== '-0' ? Number(text) : null;
			const priority = n !== null && (n > 0 ? 'high' : n < 0 ? 'low' : 'normal');
			t.deepEqual(reading({'MT-PRIORITY': text}), priority === false ? 501 : {priority});
		}),
	);
});

test('HOLDFOR accepts only 1 second to a month', t => {
	t.is(reading({HOLDFOR: true}), 501);
	t.deepEqual(reading({HOLDFOR: String(month)}), {sendAt: storeTime(now + month * 1000)});
	t.is(reading({HOLDFOR: String(month + 1)}), 501);
	const text = fc.oneof(fc.string(), fc.stringMatching(/^[-+]?\d{1,10}$/), fc.integer({max: 3_000_000}).map(String));
	fc.assert(
		fc.property(text, value => {
			const isGood = /^[1-9]\d*$/.test(value) && Number(value) <= month;
			t.deepEqual(reading({HOLDFOR: value}), isGood ? {sendAt: storeTime(now + Number(value) * 1000)} : 501);
		}),
	);
});

test('HOLDUNTIL accepts only times with an offset up to a month ahead', t => {
	for (const wrong of [true, '2026-06-10', '2026-06-10T10:00:00', '+2h', '2026-02-30T10:00:00Z', '1Z'] as const) {
		t.is(reading({HOLDUNTIL: wrong}), 501, String(wrong));
	}
	const pad = (n: number) => String(n).padStart(2, '0');
	fc.assert(
		fc.property(fc.integer({min: -5, max: month + 5}), fc.integer({min: -14, max: 14}), (ahead, hours) => {
			const at = Math.floor(now / 1000) * 1000 + ahead * 1000;
			const local = storeTime(at + hours * 3_600_000).slice(0, 19);
			const offset = hours === 0 ? 'Z' : `${hours < 0 ? '-' : '+'}${pad(Math.abs(hours))}:00`;
			const expected = at > now + month * 1000 ? 501 : at > now ? {sendAt: storeTime(at)} : {};
			t.deepEqual(reading({HOLDUNTIL: local + offset}), expected);
		}),
	);
	fc.assert(
		fc.property(fc.string(), text => {
			t.is(reading({HOLDUNTIL: text}), 501);
		}),
	);
	const [, , offered = ''] = extensionsAt(now)[1]?.split(' ') ?? [];
	t.deepEqual(reading({HOLDUNTIL: offered}), {sendAt: `${offered.slice(0, -1)}.000Z`});
});

test('BY, with or without HOLDFOR, must leave a minute, or is rejected with the code of the RFCs', t => {
	const hold = fc.option(fc.integer({min: 1, max: 500}), {nil: null});
	const by = fc.tuple(
		fc.oneof(fc.integer({min: -500, max: 1000}), fc.constantFrom(999_999_999, 1_000_000_000)),
		fc.constantFrom('', '+'),
		fc.constantFrom(';R', ';r', ';RT', ';N', ';NT', ';', '', ';T', ';RR'),
	);
	fc.assert(
		fc.property(hold, by, (seconds, [within, sign, mode]) => {
			const text = `${within < 0 ? '' : sign}${within}${mode}`;
			const read = reading({...(seconds !== null && {HOLDFOR: String(seconds)}), BY: text});
			const start = seconds ?? 0;
			const isWrong = !/^;[NR]T?$/i.test(mode) || within > 999_999_999;
			if (!isWrong && mode.startsWith(';N')) {
				t.is(read, 555, text);
			} else if (isWrong || within <= 0 || within < start) {
				t.is(read, 501, text);
			} else if (within - start < 60) {
				t.is(read, 555, text);
			} else {
				const sendAt = seconds === null ? {} : {sendAt: storeTime(now + seconds * 1000)};
				t.deepEqual(read, {...sendAt, expiresAt: storeTime(now + within * 1000)}, text);
			}
		}),
		{numRuns: 2000},
	);
	t.is(reading({BY: true}), 501);
	t.is(reading({HOLDFOR: '60', HOLDUNTIL: '2026-06-10T10:00:00Z'}), 501, 'RFC 4865 §4.2 item 9');
});
