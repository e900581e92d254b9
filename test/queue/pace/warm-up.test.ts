import test from 'ava';
import fc from 'fast-check';
import {type DayFigures, dailyShare, daysBefore, isBad, shareOf, utcDay} from '../../../src/queue/pace/choose-route.ts';

const good: DayFigures = {conversations: 1000, deferred: 100, delivered: 1000, complained: 1};

test('doubles from 50 to 800, then allows 1,500, 3,000 and 5,000, then grows by half to the target', t => {
	const days = Array.from({length: 11}, (_, day) => dailyShare(day, 17_000));
	t.deepEqual(days, [50, 100, 200, 400, 800, 1500, 3000, 5000, 7500, 11_250, 16_875]);
	t.is(dailyShare(11, 17_000), null);
	t.is(dailyShare(2, 200), null);
	t.is(dailyShare(1e6, 100_000), null);
});

test('never lowers the limit from one day to the next', t => {
	fc.assert(
		fc.property(fc.nat(200), fc.integer({min: 1, max: 1e9}), (day, target) => {
			const [today, tomorrow] = [dailyShare(day, target), dailyShare(day + 1, target)];
			return tomorrow === null || (today !== null && tomorrow > today && tomorrow < target);
		}),
	);
	t.pass();
});

test('rates a day with over 10 % deferrals or 0.1 % complaints as bad, given enough messages', t => {
	t.false(isBad(good));
	t.true(isBad({...good, deferred: 101}));
	t.true(isBad({...good, complained: 2}));
	t.false(isBad({conversations: 3, deferred: 3, delivered: 3, complained: 3}));
	t.true(isBad({conversations: 20, deferred: 3, delivered: 0, complained: 0}));
});

test('raises the daily limit by the number of good days since the start', t => {
	const warmUp = {start: '2026-10-30', target: 100_000};
	t.is(shareOf(warmUp, '2026-10-29', new Map()), 0);
	t.is(shareOf(warmUp, '2026-10-30', new Map()), 50);
	t.is(shareOf(warmUp, '2026-11-02', new Map()), 400);
	const figures = new Map([
		['2026-10-30', good],
		['2026-10-31', {...good, deferred: 500}],
		['2026-11-01', {...good, complained: 20}],
	]);
	t.is(shareOf(warmUp, '2026-11-02', figures), 100);
	t.is(shareOf(warmUp, '2027-10-01', figures), null);
});

test('counts UTC days across the ends of months and years', t => {
	t.deepEqual(daysBefore('2026-12-30', '2027-01-02'), ['2026-12-30', '2026-12-31', '2027-01-01']);
	t.deepEqual(daysBefore('2026-12-30', '2026-12-30'), []);
	t.deepEqual(daysBefore('2026-12-30', '2026-01-30'), []);
	t.is(utcDay(Date.parse('2026-11-21T23:59:59.999-00:00')), '2026-11-21');
});
