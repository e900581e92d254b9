import test from 'ava';
import fc from 'fast-check';
import {formatCurrency, formatDate} from '../../../src/compose/render/dates.ts';

const berlin = {locale: 'de-DE', timezone: 'Europe/Berlin'};
const newYork = {locale: 'en-US', timezone: 'America/New_York'};

/** Normalizes spaces, which differ between ICU releases. */
function plain(text: string | undefined): string | undefined {
	return text?.replace(/[\u00a0\u202f]/g, ' ');
}

for (const [place, amount, code, expected] of [
	[newYork, 1234.5, 'USD', '$1,234.50'],
	[berlin, 1234.5, 'EUR', '1.234,50 €'],
	[berlin, 1234.5, 'eur', '1.234,50 €'],
	[newYork, '12345678901234567890.12', 'USD', '$12,345,678,901,234,567,890.12'],
	[newYork, 5, 'JPY', '¥5'],
	[newYork, -3, 'USD', '-$3.00'],
	[newYork, '-0.00', 'USD', '$0.00'],
	[newYork, -0, 'USD', '$0.00'],
	[newYork, -0.001, 'USD', '$0.00'],
	[newYork, '-0.004', 'USD', '$0.00'],
	[newYork, -0.005, 'USD', '-$0.01'],
	[newYork, -0.4, 'JPY', '¥0'],
	[berlin, -0.001, 'EUR', '0,00 €'],
	[newYork, 'twelve', 'USD', undefined],
	[newYork, '1e5', 'USD', undefined],
	[newYork, null, 'USD', undefined],
	[newYork, [5], 'USD', undefined],
	[newYork, 5, undefined, undefined],
	[newYork, 5, 'DOLLARS', undefined],
	[{...newYork, locale: 'no_locale'}, 5, 'USD', undefined],
] as const) {
	test(`currency: ${JSON.stringify(amount)} ${code} in ${place.locale} is ${expected}`, t => {
		t.is(plain(formatCurrency(place, amount, code)), expected);
	});
}

for (const [place, moment, dateStyle, timeStyle, expected] of [
	[newYork, '2026-06-09T03:30:00Z', 'medium', undefined, 'Jun 8, 2026'],
	[berlin, '2026-06-09T23:30:00Z', 'medium', undefined, '10.06.2026'],
	[berlin, '2026-06-09T23:30:00+00:00', 'medium', 'short', '10.06.2026, 01:30'],
	[berlin, '2026-06-09 23:30:00.123+0200', 'short', 'short', '09.06.26, 23:30'],
	[newYork, '2026-06-09', 'medium', undefined, 'Jun 9, 2026'],
	[newYork, '2026-06-09T12:00', 'medium', 'short', 'Jun 9, 2026, 8:00 AM'],
	[newYork, 1_780_000_000, 'medium', undefined, 'May 28, 2026'],
	[newYork, 1_780_000_000_000, 'medium', undefined, 'May 28, 2026'],
	[newYork, '2026-02-30', 'medium', undefined, undefined],
	[newYork, '2026-02-30T10:00:00Z', 'medium', undefined, undefined],
	[newYork, '2026-06-09T25:00:00Z', 'medium', undefined, undefined],
	[newYork, 'Tue, 09 Jun 2026', 'medium', undefined, 'Jun 9, 2026'],
	[newYork, '1', 'medium', undefined, 'Dec 31, 1969'],
	[newYork, 'soon', 'medium', undefined, undefined],
	[newYork, 1e300, 'medium', undefined, undefined],
	[newYork, null, 'medium', undefined, undefined],
	[newYork, '2026-06-09', 'tiny', undefined, undefined],
	[newYork, '2026-06-09', 'medium', 'tiny', undefined],
	[{...newYork, timezone: 'Mars/Olympus'}, 0, 'medium', undefined, undefined],
] as const) {
	test(`date: ${JSON.stringify(moment)} ${dateStyle} ${timeStyle} in ${place.timezone} is ${expected}`, t => {
		t.is(plain(formatDate(place, moment, dateStyle, timeStyle)), expected);
	});
}

test('does not format NaN or infinity as an amount or a date', t => {
	for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
		t.is(formatCurrency(newYork, value, 'USD'), undefined);
		t.is(formatDate(newYork, value, 'medium', undefined), undefined);
	}
});

test('reused formatters return the same result', t => {
	t.is(formatDate(berlin, 0, 'long', undefined), formatDate(berlin, 0, 'long', undefined));
	t.is(formatCurrency(berlin, 5, 'XXXX'), formatCurrency(berlin, 5, 'XXXX'));
});

test('formatting never throws', t => {
	fc.assert(
		fc.property(fc.anything(), fc.anything(), fc.string(), fc.string(), (value, option, locale, timezone) => {
			for (const place of [{locale, timezone}, berlin]) {
				formatCurrency(place, value, option);
				formatDate(place, value, option, option);
				formatDate(place, value, 'short', undefined);
			}
		}),
	);
	t.pass();
});
