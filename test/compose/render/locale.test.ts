import test from 'ava';
import fc from 'fast-check';
import {chooseVariant, isValidTimezone, mailLocale, validLocale} from '../../../src/compose/render/locale.ts';
import {anyChar} from '../../helpers/any-char.ts';

for (const [text, canonical] of [
	['en', 'en'],
	['EN-us', 'en-US'],
	['zh-hant-tw', 'zh-Hant-TW'],
	['iw', 'he'],
	['de-DE-u-co-phonebk', 'de-DE-u-co-phonebk'],
	['', null],
	['en_US', null],
	['x', null],
	['english language', null],
	['en-', null],
] as const) {
	test(`locale ${JSON.stringify(text)} is ${canonical ?? 'none'}`, t => {
		t.is(validLocale(text), canonical);
	});
}

for (const zone of [
	'UTC',
	'GMT',
	'Europe/Berlin',
	'Asia/Kolkata',
	'Asia/Calcutta',
	'America/Argentina/Buenos_Aires',
	'Etc/GMT+5',
	'America/Port-au-Prince',
	'EST',
	'CET',
	'PST8PDT',
	'GMT+0',
	'Japan',
	'GB',
	'GB-Eire',
	'NZ-CHAT',
	'W-SU',
]) {
	test(`accepts the time zone ${zone}`, t => {
		t.true(isValidTimezone(zone));
	});
}

for (const zone of [
	'',
	'CEST',
	'+01:00',
	'-08',
	'UTC+1',
	'SystemV/EST5',
	'systemv/est5',
	'Mars/Olympus',
	'Europe/',
	'Europe/Berlin ',
	'../../etc/passwd',
	'Europe/Berlin\n',
	'__proto__',
]) {
	test(`rejects the time zone ${JSON.stringify(zone)}`, t => {
		t.false(isValidTimezone(zone));
	});
}

const variants = [{locale: 'fr'}, {locale: 'de'}, {locale: 'de-CH'}, {locale: null}, {locale: 'zh-Hant'}];

for (const [locale, workspace, chosen] of [
	['de-CH', null, 'de-CH'],
	['de-ch', null, 'de-CH'],
	['de-AT', null, 'de'],
	['zh-Hant-TW', null, 'zh-Hant'],
	['zh-TW', null, 'zh-Hant'],
	['zh-MO', null, 'zh-Hant'],
	['zh-TW-u-nu-hanidec', null, 'zh-Hant'],
	['ja', 'zh-HK', 'zh-Hant'],
	['zh-CN', null, null],
	['zh', null, null],
	['fr-u-nu-latn', null, 'fr'],
	['es', 'fr-CA', 'fr'],
	['es', 'it', null],
	['es', null, null],
] as const) {
	test(`chooses variant ${chosen} for ${locale} in a workspace of ${workspace}`, t => {
		t.is(chooseVariant(variants, locale, workspace)?.locale, chosen);
	});
}

for (const [locale, all, chosen] of [
	['zh-TW', ['zh', 'zh-Hans', 'zh-Hant'], 'zh-Hant'],
	['zh-SG', ['zh-Hant', 'zh-Hans'], 'zh-Hans'],
	['zh', ['zh-Hant', 'zh-Hans'], 'zh-Hans'],
	['zh-Hant-TW', ['zh', 'zh-TW'], 'zh-TW'],
	['zh-Hant', ['zh', 'zh-TW'], 'zh-TW'],
	['zh-Hans-CN', ['zh-TW', 'zh-CN'], 'zh-CN'],
	['zh-TW', ['zh-CN', 'zh-Hant-TW'], 'zh-Hant-TW'],
	['zh-TW', ['zh', 'en'], 'zh'],
	['zh-TW', ['zh-Hans', 'en'], 'en'],
	['sr-ME', ['sr', 'sr-Latn'], 'sr-Latn'],
	['sr', ['sr-Latn', 'sr-Cyrl'], 'sr-Cyrl'],
	['pa-PK', ['pa-Guru', 'pa-Arab'], 'pa-Arab'],
	['uz-AF', ['uz-Latn', 'uz-Arab'], 'uz-Arab'],
	['de', ['de-DE', 'en'], 'en'],
	['xx-ZZ', ['zh-Hant', 'en'], 'en'],
] as const) {
	test(`chooses variant ${chosen} for ${locale} from ${all.join(', ')}`, t => {
		t.is(
			chooseVariant(
				all.map(one => ({locale: one})),
				locale,
				null,
			)?.locale,
			chosen,
		);
	});
}

for (const [variant, locale, language] of [
	[null, 'de', 'de'],
	['de', 'de', 'de'],
	['de', 'de-AT', 'de-AT'],
	['DE', 'de-AT', 'de-AT'],
	['zh-Hant', 'zh-TW', 'zh-TW'],
	['zh-TW', 'zh-Hant-TW', 'zh-Hant-TW'],
	['en', 'fr', 'en'],
	['de-AT', 'de', 'de-AT'],
	['en', 'eng', 'en'],
] as const) {
	test(`a message of variant ${variant} for ${locale} is in ${language}`, t => {
		t.is(mailLocale(variant, locale), language);
	});
}

test('prefers en to the default variant, and falls back to the first one', t => {
	t.is(chooseVariant([{locale: null}, {locale: 'en'}], 'es', null)?.locale, 'en');
	t.is(chooseVariant([{locale: 'ja'}, {locale: 'ko'}], 'es', 'it')?.locale, 'ja');
	t.is(chooseVariant([], 'es', 'it'), undefined);
});

test('accepts or rejects any text without throwing', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar}), text => {
			const locale = validLocale(text);
			t.true(locale === null || validLocale(locale) === locale);
			t.is(typeof isValidTimezone(text), 'boolean');
			t.not(chooseVariant(variants, text, text), undefined);
			t.is(typeof mailLocale('zh-Hant', text), 'string');
		}),
	);
	t.pass();
});
