import test from 'ava';
import fc from 'fast-check';
import {acceptedTags, chooseTexts, texts} from '../../src/hosted/language.ts';
import {en, type Language} from '../../src/hosted/texts/wording.ts';

const cases: ReadonlyArray<readonly [string, Array<string | null>, string | undefined, string | null, Language]> = [
	['the message’s first', ['de-AT', 'fr'], 'es', 'en', 'de'],
	['then the contact’s', [null, 'fr-CA'], 'es', 'en', 'fr'],
	['then the browser’s', [null, null], 'es-MX,en;q=0.8', 'de', 'es'],
	['then the workspace’s', [null, null], undefined, 'de', 'de'],
	['then English', [null, null], undefined, null, 'en'],
	['skips a language without texts', ['ja'], 'pt-BR, fr;q=0.5, de;q=0.7', 'es', 'de'],
	['in any case', ['DE'], undefined, null, 'de'],
	['never a property of Object.prototype', ['constructor', '__proto__'], 'toString', 'valueOf', 'en'],
];

for (const [title, preferred, acceptLanguage, fallback, expected] of cases) {
	test(`the language of a page: ${title}`, t => {
		t.is(chooseTexts({preferred, acceptLanguage, fallback}).language, expected);
	});
}

test('Accept-Language: respects weights and exclusions, and ignores nonsense', t => {
	t.deepEqual(acceptedTags('da, en-gb;q=0.8, en;q=0.7'), ['da', 'en-gb', 'en']);
	t.deepEqual(acceptedTags('fr;q=0, de;q=0.1, es ; q=0.900, *'), ['es', 'de']);
	t.deepEqual(acceptedTags('de;q=2, en;q=x, ;;;, ü'), []);
});

test('any Accept-Language yields an available language', t => {
	fc.assert(
		fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-z;=,q01.* -]{0,200}$/)), field => {
			t.true(Object.hasOwn(texts, chooseTexts({preferred: [], acceptLanguage: field, fallback: null}).language));
		}),
	);
	t.true(acceptedTags('a,'.repeat(100_000)).length <= 32);
});

test('every language has all texts of its own', t => {
	const sentences = (language: keyof typeof texts) => JSON.stringify(texts[language]);
	const all = (Object.keys(texts) as Array<keyof typeof texts>).map(sentences);
	t.is(new Set(all).size, 4);
	const put = (text: string) => text.match(/\{\w+\}/g)?.sort();
	for (const [language, one] of Object.entries(texts)) {
		t.notRegex(JSON.stringify(one), /undefined|""/);
		for (const [name, text] of Object.entries(en)) {
			t.deepEqual(put(one[name as keyof typeof en]), put(text), `${language}: ${name}`);
		}
	}
});
