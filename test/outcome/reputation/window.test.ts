import test from 'ava';
import {firstKeptHour, hourOf, windowStarts} from '../../../src/outcome/reputation-findings.ts';

const now = Date.parse('2026-06-09T10:15:30.123Z');

test('spans whole hours back plus the current hour so far', t => {
	t.is(hourOf('2026-06-09T10:15:30.123Z'), '2026-06-09T10');
	t.deepEqual(windowStarts(now), {day: '2026-06-08T10', week: '2026-06-02T10'});
	t.deepEqual(windowStarts(Date.parse('2026-03-01T00:00:00.000Z')), {day: '2026-02-28T00', week: '2026-02-22T00'});
});

test('stores figures a day longer than the longest window', t => {
	t.is(firstKeptHour(now), '2026-06-01T10');
});
