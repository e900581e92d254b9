import process from 'node:process';
import test from 'ava';
import {formatDate} from '../../src/render/formats.ts';
import {createRenderer} from '../../src/render/render.ts';
import {input, variant} from './inputs.ts';

// Dates in mail depend on the message's zone, never on that of the process.

const renderer = createRenderer();

function shown(source: string, data: Record<string, unknown>, place: {locale: string; timezone: string}): string {
	const result = renderer.render(variant({subject: source}), input(data, place));
	return result.ok ? result.subject : `${result.reason}: ${result.message}`;
}

const processZones = ['UTC', 'America/New_York', 'Europe/Berlin', 'Asia/Kolkata', 'Pacific/Kiritimati'];
const zones = ['UTC', 'America/New_York', 'Europe/Berlin', 'Asia/Kolkata', 'Pacific/Apia', 'EST', 'Japan', 'GB'];

/** Spellings with the moment that they name; null: a day, which is the same in every zone. */
const spellings: ReadonlyArray<readonly [value: string | number, at: number | null]> = [
	['2026-06-09T23:30:00Z', Date.UTC(2026, 5, 9, 23, 30)],
	['2026-06-09T23:30:00', Date.UTC(2026, 5, 9, 23, 30)],
	['2026-06-09 23:30', Date.UTC(2026, 5, 9, 23, 30)],
	['2026-06-09T23:30:00-07:00', Date.UTC(2026, 5, 10, 6, 30)],
	['2026-06-09T23:30:00.250+0530', Date.UTC(2026, 5, 9, 18, 0, 0, 250)],
	['2026-03-08T07:30:00Z', Date.UTC(2026, 2, 8, 7, 30)],
	['2026-11-01T05:59:59Z', Date.UTC(2026, 10, 1, 5, 59, 59)],
	['Tue, 09 Jun 2026 23:30:00 +0200', Date.UTC(2026, 5, 9, 21, 30)],
	['June 9, 2026 5:15 pm', Date.UTC(2026, 5, 9, 17, 15)],
	[1_781_051_400, 1_781_051_400_000],
	['1781051400', 1_781_051_400_000],
	[0, 0],
	['2026-06-09', null],
	['June 9, 2026', null],
	['06/09/2026', null],
	['09.06.2026', null],
];

/** The wall clock by Intl alone. */
function wallClock(at: number, timeZone: string): string {
	const parts = new Intl.DateTimeFormat('en-US', {
		...{timeZone, year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit'},
		...{second: '2-digit', hourCycle: 'h23', calendar: 'gregory'},
	}).formatToParts(at);
	const of = (type: string) => parts.find(part => part.type === type)?.value;
	return `${of('year')}-${of('month')}-${of('day')} ${of('hour')}:${of('minute')}:${of('second')}`;
}

for (const processZone of processZones) {
	test.serial(`dates are those of the message's zone where the process runs in ${processZone}`, t => {
		const before = process.env.TZ;
		process.env.TZ = processZone;
		t.teardown(() => {
			if (before === undefined) {
				delete process.env.TZ;
			} else {
				process.env.TZ = before;
			}
		});
		for (const [value, at] of spellings) {
			for (const timezone of zones) {
				const place = {locale: 'en', timezone};
				const expected = at === null ? '2026-06-09 00:00:00' : wallClock(at, timezone);
				t.is(shown('{{ v | date: "%F %T" }}', {v: value}, place), expected, `${value} in ${timezone}`);
				const day = new Intl.DateTimeFormat('en', {
					timeZone: at === null ? 'UTC' : timezone,
					dateStyle: 'full',
				}).format(at ?? Date.UTC(2026, 5, 9));
				t.is(formatDate(place, value, 'full', undefined), day, `${value} in ${timezone}`);
			}
		}
	});
}

/** As Ruby's `Time#strftime` writes 2026-06-09 05:07:03.0625 +02:00. */
const forms: ReadonlyArray<readonly [form: string, text: string]> = [
	['%F', '2026-06-09'],
	['%T', '05:07:03'],
	['%R', '05:07'],
	['%D', '06/09/26'],
	['%r', '05:07:03 AM'],
	['%c', 'Tue Jun  9 05:07:03 2026'],
	['%x %X', '06/09/26 05:07:03'],
	['%v', ' 9-JUN-2026'],
	['%Y %C %y %G %g', '2026 20 26 2026 26'],
	['%m %-m %_m', '06 6  6'],
	['%B %b %h %^b %^B', 'June Jun Jun JUN JUNE'],
	['%d %-d %e %3d', '09 9  9 009'],
	['%j', '160'],
	['%H %k %I %l %-I', '05  5 05  5 5'],
	['%M %S', '07 03'],
	['%L %N %3N %6N', '062 062500000 062 062500'],
	['%p %P %#p', 'AM am am'],
	['%A %a %^a %10a', 'Tuesday Tue TUE        Tue'],
	['%u %w', '2 2'],
	['%U %W %V', '23 23 24'],
	['%z %:z %::z', '+0200 +02:00 +02:00:00'],
	['%s', '1780974423'],
	['%%', '%'],
];
for (const [form, text] of forms) {
	test(`strftime: ${form} is ${JSON.stringify(text)}`, t => {
		const place = {locale: 'en', timezone: 'Europe/Berlin'};
		const source = `[{{ v | date: ${JSON.stringify(form)} }}]`;
		t.is(shown(source, {v: '2026-06-09T03:07:03.0625Z'}, place), `[${text}]`);
	});
}

test('what names no moment is shown as it came', t => {
	const place = {locale: 'en', timezone: 'UTC'};
	for (const value of ['soon', '2026-02-30', '2026-13-01', '25:00', '2026-06-09T25:00Z', '']) {
		t.is(shown('[{{ v | date: "%F" }}]', {v: value}, place), `[${value}]`);
	}
	t.regex(shown('{{ "now" | date: "%Y" }}', {}, place), /^20\d\d$/);
	t.regex(shown('{{ "now" | format_date }}', {}, place), /20\d\d/);
});

test('a second argument of date is another zone', t => {
	const place = {locale: 'en', timezone: 'UTC'};
	t.is(shown('{{ 0 | date: "%R %Z", "Asia/Tokyo" }}', {}, place), '09:00 JST');
	t.is(shown('{{ 0 | date: "%R %z", "+05:30" }}', {}, place), '05:30 +0530');
});
