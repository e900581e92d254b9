import test from 'ava';
import fc from 'fast-check';
import {parsePattern} from '../../../src/mail/bounce-rule-table.ts';
import {plainText} from '../../../src/mail/classify-reply.ts';

function holds(written: string, text: string): boolean {
	const read = parsePattern(written);
	if (!read.ok) {
		throw new Error(`${written} ${read.problem}`);
	}
	return new RegExp(read.source, 'i').test(plainText(text));
}

test('matches letters with accents however they are encoded, and without their accents', t => {
	for (const written of [
		'boîte',
		'boîte'.normalize('NFD'),
		'boite',
		'bo\\u00eete',
		'bo\\xEEte',
		'bo\\îte',
		'bo[îï]te',
	]) {
		for (const text of ['Boîte pleine', 'boîte'.normalize('NFD'), 'BOITE']) {
			t.true(holds(written, text), `${written}: ${text}`);
		}
	}
	t.true(holds('straße{1,2} gesperrt', 'Die STRASSE gesperrt'));
	t.true(holds('stra(?:ß|x)e', 'strasse'));
	t.true(holds('[а-я]{3} закрыт', 'ящик закрыт'));
	t.true(holds('n’existe', "n'existe"));
	t.true(holds('^$', '') && !holds('^$', 'gone'));
	t.true(holds('\\[[ab]-é\\] [é]', '[a-é] E'));
	t.true(holds('[^@]{1,9} \\[GL\\d\\d\\] \\\\n _x', 'so [GL07] \\n _x'));
});

test('rejects a pattern that cannot match as intended, and explains how to fix it', t => {
	const problems: ReadonlyArray<readonly [written: string, problem: string]> = [
		['[à-ü]{1,3} x', 'has à-ü, but accents are removed before matching: use a-z, or list the letters'],
		['[z-é]', 'has z-é, but accents are removed before matching: use a-z, or list the letters'],
		['[\\u00e0-\\xff]', 'has à-ÿ, but accents are removed before matching: use a-z, or list the letters'],
		['[a-\\ß]', 'has a-ß, but accents are removed before matching: use a-z, or list the letters'],
		['stra[ßs]e', 'has ß in [], but ß becomes ss before matching: use (?:ss|…)'],
		['(?<é>a)|(?<e>b)', 'has a named group, which is not supported: use (?:…)'],
		['(a)\\1', 'has \\1, which is not supported: use only \\b \\B \\d \\D \\s \\S \\w \\W'],
		['\\p{L}x', 'has \\p, which is not supported: use only \\b \\B \\d \\D \\s \\S \\w \\W'],
		['\\u{e9}', 'has \\u, which is not supported: use only \\b \\B \\d \\D \\s \\S \\w \\W'],
		['one\\ntwo', 'has \\n, which is not supported: use only \\b \\B \\d \\D \\s \\S \\w \\W'],
		['[]]x', 'has [], which matches nothing: write \\[ and \\] for literal brackets'],
		['info@a\\.example', 'has @, but addresses are removed before matching: omit it'],
		['NO_SUCH_USER', 'has _ between letters, which becomes a space before matching: write a space'],
		['é_é', 'has _ between letters, which becomes a space before matching: write a space'],
		['user_?unknown', 'has _ between letters, which becomes a space before matching: write a space'],
		['user  unknown', 'has white space other than single spaces: write a single space'],
		['user\tunknown', 'has white space other than single spaces: write a single space'],
		['(gone)?', 'matches every text: add something that must occur in it'],
		['gone|', 'matches every text: add something that must occur in it'],
	];
	for (const [written, problem] of problems) {
		t.deepEqual(parsePattern(written), {ok: false, problem});
	}
});

const pieces = fc.array(
	fc.constantFrom(
		...[
			'user',
			'é',
			'e\u0301',
			'ß',
			'ł',
			'ı',
			'Å',
			'が',
			'ящик',
			'’',
			'_',
			'@',
			' ',
			'.',
			'-',
			'(',
			')',
			'[',
			']',
			'\\',
		],
		...[
			'|',
			'?',
			'{2}',
			'{1,3}',
			'*',
			'\\u00e9',
			'\\xe9',
			'\\é',
			'\\b',
			'\\1',
			'(?:',
			'(?<é>',
			'(?<e>',
			'(?<=',
			'[é-',
			'^',
			'$',
		],
	),
	{maxLength: 8},
);

test('accepts only patterns that compile, alone and joined with others', t => {
	fc.assert(
		fc.property(pieces, pieces, (some, more) => {
			const sources = [some, more].flatMap(each => {
				const read = parsePattern(each.join(''));
				return read.ok ? [read.source] : [];
			});
			t.notThrows(() => new RegExp(sources.join('|'), 'i'));
		}),
	);
});

test('finds every accepted plain word in a text that contains it', t => {
	const letters = fc.constantFrom(...'abzéèüßłıÅçñø_@ '.split(''), 'e\u0301', 'ящик', '宛先', 'が', '’');
	fc.assert(
		fc.property(fc.array(letters, {minLength: 1, maxLength: 8}), word => {
			const read = parsePattern(word.join(''));
			t.true(!read.ok || holds(word.join(''), `1${word.join('')}1`), word.join(''));
		}),
	);
});
