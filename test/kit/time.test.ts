import test from 'ava';
import fc from 'fast-check';
import {parseMoment, parseQueryTime, parseTime, storeTime} from '../../src/kit/time.ts';
import {anyChar} from '../helpers/any-char.ts';

const at = Date.parse('2026-06-09T10:15:30Z');

test('parses RFC 3339 times with valid dates, in UTC by default', t => {
	for (const text of ['2026-06-09T10:15:30Z', '2026-06-09 10:15:30', '2026-06-09t12:15:30.000+02:00']) {
		t.is(parseTime(text), at, text);
	}
	t.is(parseTime('2026-06-09'), Date.parse('2026-06-09T00:00:00Z'));
	t.is(parseTime('2024-02-29T23:59:59.999-00:00'), Date.parse('2024-02-29T23:59:59.999Z'));
	for (const text of [
		...['2026-02-30', '2025-02-29', '2026-13-01', '2026-00-01', '2026-06-00', '2026-6-9', '2026', 'now', ''],
		...['2026-06-09T24:00:00Z', '2026-06-09T10:60:00Z', '2026-06-09T10:15:61Z', '2026-06-09T10:15Z', '2026-06-09T'],
		...[
			'2026-06-09T10:15:30+0200',
			'2026-06-09T10:15:30+25:00',
			'2026-06-09T10:15:30+02',
			' 2026-06-09',
			'2026-06-09\n',
		],
		...['+002026-06-09', '٢٠٢٦-٠٦-٠٩', `2026-06-09T10:15:30.${'1'.repeat(100)}Z`, '1781000130'],
	]) {
		t.is(parseTime(text), undefined, text);
	}
});

test('reads a space in a query as the plus of an offset, and as nothing else', t => {
	t.is(parseQueryTime('2026-06-09T12:15:30 02:00'), at);
	t.is(parseQueryTime('2026-06-09 10:15:30'), at);
	t.is(parseQueryTime('2026-06-09T08:15:30-02:00'), at);
	for (const text of ['2026-06-09T12:15:30  02:00', '2026-06-09 02:00', '2026-06-09T12:15:30 Z']) {
		t.is(parseQueryTime(text), undefined, text);
	}
});

test('parses every time that is written, and any text as a time or not at all', t => {
	fc.assert(
		fc.property(fc.integer({min: Date.UTC(0), max: Date.UTC(9999, 11)}), ms => {
			t.is(parseTime(storeTime(ms)), ms);
		}),
	);
	const pieces = fc.constantFrom('2026', '-', '02', '30', 'T', ':', '.', 'Z', '+', ' ', '99', '1', '\0', 'é');
	fc.assert(
		fc.property(
			fc.oneof(
				fc.string({unit: anyChar}),
				fc.array(pieces).map(parts => parts.join('')),
			),
			text => {
				const time = parseQueryTime(text);
				t.true(time === undefined || Number.isSafeInteger(time));
			},
		),
	);
});

test('parses a time or a duration from now, and rejects other texts', t => {
	const now = Date.parse('2026-03-29T00:30:00Z'); // Clocks in Europe go forward half an hour later.
	for (const [text, ms] of [
		['+45s', 45_000],
		['+90m', 5_400_000],
		['+2h', 7_200_000],
		['+3d', 259_200_000],
	] as const) {
		t.is(parseMoment(text, now), now + ms, text);
	}
	t.is(parseMoment('2026-03-29T03:30:00+02:00', now), now + 3_600_000);
	for (const text of [
		'',
		'+',
		'+h',
		'+2',
		'2h',
		'-2h',
		'+2H',
		'+2h ',
		' +2h',
		'+2h30m',
		'+1.5h',
		'+1234567d',
		'+2ms',
		'+٢h',
	]) {
		t.is(parseMoment(text, now), undefined, text);
	}
});

test('adds any duration to the current time, and never throws', t => {
	const now = Date.parse('2026-10-25T00:30:00Z');
	const lengths = {s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000};
	fc.assert(
		fc.property(fc.nat({max: 999_999}), fc.constantFrom(...(['s', 'm', 'h', 'd'] as const)), (count, unit) => {
			t.is(parseMoment(`+${count}${unit}`, now), now + count * lengths[unit]);
		}),
	);
	fc.assert(
		fc.property(fc.string(), text => {
			const at = parseMoment(text, now);
			t.true(at === undefined || Number.isSafeInteger(at));
		}),
	);
});
