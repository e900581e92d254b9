import test from 'ava';
import {readMoment} from '../../../src/compose/render/dates.ts';
import {createRenderer} from '../../../src/compose/render/render.ts';
import {input, variant} from './inputs.ts';

const renderer = createRenderer();

function rendered(
	template: string,
	value: unknown,
	place: {readonly locale?: string; readonly timezone?: string} = {},
): string {
	const result = renderer.render(variant({text: template}), input({value}, place));
	// ICU's releases differ in which spaces they set.
	return (result.ok ? result.text : result.message).replace(/\n$/, '').replace(/[\u00a0\u202f]/g, ' ');
}

// What Ruby 3.1 writes with `Time.at(1767402189, 45_006_007, :nsec).strftime` in America/New_York.
const forms: ReadonlyArray<readonly [form: string, written: string]> = [
	['%F', '2026-01-02'],
	['%T', '20:03:09'],
	['%s', '1767402189'],
	['%e', ' 2'],
	['%l', ' 8'],
	['%k', '20'],
	['%-d', '2'],
	['%^a', 'FRI'],
	['%^B', 'JANUARY'],
	['%#p', 'pm'],
	['%P', 'pm'],
	['%p', 'PM'],
	['%_m', ' 1'],
	['%-m', '1'],
	['%05d', '00002'],
	['%-e', '2'],
	['%_d', ' 2'],
	['%10A', '    Friday'],
	['%010Y', '0000002026'],
	['%-I', '8'],
	['%-l', '8'],
	['%N', '045006007'],
	['%L', '045'],
	['%3N', '045'],
	['%6N', '045006'],
	['%9N', '045006007'],
	['%12N', '045006007000'],
	['%1L', '0'],
	['%z', '-0500'],
	['%:z', '-05:00'],
	['%::z', '-05:00:00'],
	['%:::z', '-05'],
	['%_z', ' -500'],
	['%10z', '-000000500'],
	['%_10:z', '     -5:00'],
	['%Z', 'EST'],
	['%#Z', 'est'],
	['%j', '002'],
	['%-j', '2'],
	['%U', '00'],
	['%W', '00'],
	['%V', '01'],
	['%G', '2026'],
	['%g', '26'],
	['%u', '5'],
	['%w', '5'],
	['%y', '26'],
	['%C', '20'],
	['%c', 'Fri Jan  2 20:03:09 2026'],
	['%x', '01/02/26'],
	['%X', '20:03:09'],
	['%D', '01/02/26'],
	['%r', '08:03:09 PM'],
	['%R', '20:03'],
	['%v', ' 2-JAN-2026'],
	['%n', '\n'],
	['%t', '\t'],
	['%%', '%'],
	['%h', 'Jan'],
	['%Y-%m-%dT%H:%M:%S.%L%:z', '2026-01-02T20:03:09.045-05:00'],
	['%Ey', '26'],
	['%Od', '02'],
	['%^b%-d', 'JAN2'],
	['%i', '%i'],
	['%_H', '20'],
	['%0e', '02'],
	['%0k', '20'],
	['%-y', '26'],
	['%-H:%-M', '20:3'],
	['%^10b', '       JAN'],
	['%-10b', 'Jan'],
];

for (const [form, written] of forms) {
	test(`formats a date as ${form}`, t => {
		const place = {timezone: 'America/New_York'};
		t.is(rendered(`[{{ value | date: "${form}" }}]`, '1767402189.045006007', place), `[${written}]`);
	});
}

const zones = ['UTC', 'America/New_York', 'Europe/Berlin', 'Asia/Kolkata', 'Pacific/Chatham'];
// Around both changes of the clocks, at the ends of days and years, before the epoch, and in local mean time.
const instants = [
	...['2026-03-08T06:59:59Z', '2026-03-08T07:00:00Z', '2026-11-01T05:30:00Z', '2026-11-01T06:30:00Z'],
	...['2026-03-29T00:59:59Z', '2026-03-29T01:00:00Z', '2026-10-25T00:30:00Z', '2026-10-25T01:30:00Z'],
	...['2026-04-04T14:00:00Z', '2026-09-26T14:00:00Z', '2026-12-31T23:59:59Z', '2027-01-01T00:00:00Z'],
	...['2024-02-29T12:00:00Z', '2026-06-09T03:30:00Z', '1969-12-31T23:59:59Z', '1945-07-01T12:00:00Z'],
	...['1883-11-18T16:00:00Z', '1800-01-01T00:00:00Z', '2099-07-01T00:00:00Z', '1970-01-01T00:00:00Z'],
];
const values = [
	...[...instants, '2026-06-09', '2026-06-09T12:00', '2026-06-09 23:30:00 +0200', 'Tue, 09 Jun 2026 23:30:00 EST'],
	...['June 9, 2026 5 pm', '09.06.2026', '6/9/2026 00:15', 1_780_000_000, '1780000000', 1_780_000_000_000],
];
const filters = [
	...[
		'date: "%a %b %e %Y %H:%M:%S %z %Z %j %U %V %s"',
		'date',
		'date: "%c %x %X", "Asia/Tokyo"',
		'date_to_xmlschema',
	],
	...['date_to_rfc822', 'date_to_string', 'date_to_long_string: "ordinal", "US"', 'format_date: "full"'],
	'format_datetime: "full", "full"',
];

/** Runs with the process in a time zone. */
function inZone<Made>(zone: string, make: () => Made): Made {
	const {TZ} = process.env;
	process.env.TZ = zone;
	try {
		return make();
	} finally {
		if (TZ === undefined) {
			delete process.env.TZ;
		} else {
			process.env.TZ = TZ;
		}
	}
}

test('dates do not depend on the time zone of the process', t => {
	const suite = () =>
		zones.flatMap(timezone =>
			values.flatMap(value => filters.map(filter => rendered(`{{ value | ${filter} }}`, value, {timezone}))),
		);
	const [first, ...others] = zones.map(zone => inZone(zone, suite));
	t.true(first && first.length === zones.length * values.length * filters.length);
	for (const other of others) {
		t.deepEqual(other, first);
	}
});

test('dates match the local clock of their time zone', t => {
	const two = (value: number) => String(value).padStart(2, '0');
	for (const timezone of zones) {
		for (const instant of instants) {
			// The engine's own arithmetic, for a process in that zone.
			const clock = inZone(timezone, () => {
				const at = new Date(instant);
				const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
				return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time} ${at.getDay()}`;
			});
			t.is(rendered('{{ value | date: "%F %T %w" }}', instant, {timezone}), clock, `${instant} in ${timezone}`);
			t.is(rendered('{{ value | date: "%s" }}', instant, {timezone}), String(Date.parse(instant) / 1000));
		}
	}
});

const noon = Date.UTC(2026, 5, 9, 12);
for (const [value, at] of [
	[noon / 1000, noon],
	[noon, noon],
	[String(noon / 1000), noon],
	['1780000000.25', 1_780_000_000_250],
	['-86400', -86_400_000],
	['2026-06-09', noon - 43_200_000],
	['2026-06', noon - 43_200_000 - 8 * 86_400_000],
	['2026/06/09', noon - 43_200_000],
	['2026-06-09T12:00', noon],
	['2026-06-09T12:00:00.000Z', noon],
	['2026-06-09t12:00:00z', noon],
	['20260609T120000Z', noon],
	['2026-06-09 12:00:00 UTC', noon],
	['2026-06-09 14:00 +0200', noon],
	['2026-06-09T14:00:00+02', noon],
	['2026-06-09T14:00:00+02:00[Europe/Berlin]', noon],
	['2026-06-09T24:00:00Z', noon + 43_200_000],
	['Tue, 09 Jun 2026 08:00:00 EDT', noon],
	['Tue, 9 Jun 2026 14:00:00 +0200 (CEST)', noon],
	['Tue Jun  9 12:00:00 2026', noon],
	['Tue Jun 9 12:00:00 UTC 2026', noon],
	['Tue Jun 09 2026 14:00:00 GMT+0200 (Central European Summer Time)', noon],
	['June 9, 2026', noon - 43_200_000],
	['9 June 2026', noon - 43_200_000],
	['Jun. 9th, 2026 at 12:00 p.m.', noon],
	['09-Jun-2026 12:00', noon],
	['Sept 9, 2026', noon - 43_200_000 + 92 * 86_400_000],
	['6/9/2026 12 pm', noon],
	['9.6.2026 12:00', noon],
	['2026-02-30', undefined],
	['2026-02-30T10:00:00Z', undefined],
	['2026-06-09T25:00:00Z', undefined],
	['2026-06-09T24:00:01Z', undefined],
	['2026-06-09T12:60Z', undefined],
	['2026-06-09T12:00+25:00', undefined],
	['6/9/2026 13 pm', undefined],
	['June 31, 2026', undefined],
	['soon', undefined],
	['', undefined],
	['9e9', undefined],
	[Number.NaN, undefined],
	[1e300, undefined],
	['9'.repeat(90), undefined],
	[null, undefined],
	[true, undefined],
	[['2026-06-09'], undefined],
] as const) {
	test(`reads the ${typeof value} ${String(value)} as ${at}`, t => {
		t.is(readMoment(value)?.at, at);
	});
}

for (const [value, filter, place, written] of [
	['2026-06-09', 'date: "%F %T %Z"', {timezone: 'America/New_York'}, '2026-06-09 00:00:00 UTC'],
	['2026-06-09T03:30:00Z', 'date', {timezone: 'America/New_York'}, 'Monday, June 8, 2026 at 11:30 pm -0400'],
	[
		'2026-06-09T23:30:00Z',
		'date: "%-d. %B %Y, %A"',
		{locale: 'de', timezone: 'Europe/Berlin'},
		'10. Juni 2026, Mittwoch',
	],
	['2026-06-09T23:30:00Z', 'date: "%F %R %Z", "Japan"', {}, '2026-06-10 08:30 JST'],
	['2026-06-09T23:30:00Z', 'date: "%F %R %Z", "GB"', {}, '2026-06-10 00:30 BST'],
	['2026-06-09T23:30:00Z', 'date: "%F %R %Z"', {timezone: 'EST'}, '2026-06-09 18:30 EST'],
	['2026-06-09T23:30:00Z', 'date: "%F %R %z", "+05:30"', {}, '2026-06-10 05:00 +0530'],
	['2026-06-09T23:30:00Z', 'date: "%F %R %z", 240', {}, '2026-06-09 19:30 -0400'],
	['2026-06-09T23:30:00Z', 'date: "%F", "Mars/Olympus"', {}, '2026-06-09T23:30:00Z'],
	['2026-06-09T23:30:00Z', 'date_to_xmlschema', {timezone: 'Asia/Kolkata'}, '2026-06-10T05:00:00+05:30'],
	['2026-06-09T23:30:00Z', 'date_to_rfc822', {locale: 'de', timezone: 'UTC'}, 'Tue, 09 Jun 2026 23:30:00 +0000'],
	['2026-06-09T23:30:00Z', 'date_to_string', {}, '09 Jun 2026'],
	['2026-06-03T23:30:00Z', 'date_to_string: "ordinal", "US"', {}, 'Jun 3rd, 2026'],
	['2026-06-11T23:30:00Z', 'date_to_long_string: "ordinal"', {}, '11th June 2026'],
	[1_780_000_000, 'format_date', {timezone: 'Japan'}, 'May 29, 2026'],
	['1780000000', 'format_datetime: "short"', {locale: 'de', timezone: 'GB'}, '28.05.26, 21:26'],
	['June 9, 2026 5 pm', 'format_datetime', {timezone: 'America/New_York'}, 'Jun 9, 2026, 1:00 PM'],
	['soon', 'date: "%F"', {}, 'soon'],
	[null, 'date: "%F"', {}, ''],
] as const) {
	test(`${JSON.stringify(value)} | ${filter} for ${JSON.stringify(place)} is ${written}`, t => {
		t.is(rendered(`{{ value | ${filter} }}`, value, place), written);
	});
}

test('"now" is the current time in all filters', t => {
	const before = Date.now();
	const seconds = Number(rendered('{{ "now" | date: "%s" }}', null));
	const day = rendered('{{ "now" | format_date: "short" }}', null, {locale: 'en-CA'});
	t.true(Math.floor(before / 1000) <= seconds && seconds <= Date.now() / 1000);
	t.true(
		[before, Date.now()].some(at => day === new Date(at).toISOString().slice(0, 10)),
		day,
	);
	t.is(typeof readMoment('Today')?.at, 'number');
});
