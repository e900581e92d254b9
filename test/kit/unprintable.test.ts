import test from 'ava';
import {badInNames, unprintable, withoutControls} from '../../src/kit/text.ts';
import {smtpReply} from '../../src/mail/outcome.ts';

const tag = String.fromCodePoint(0xe0041);

test('controls, direction marks, invisible characters, lone surrogates and separators are unprintable', t => {
	const one = new RegExp(`^[${unprintable}]$`, 'u');
	for (const character of [
		'\0',
		'\n',
		'\u009b',
		'\u200b',
		'\u061c',
		'\u202e',
		'\u2067',
		'\ufeff',
		'\ud800',
		'\u2028',
		tag,
	]) {
		t.regex(character, one);
	}
	for (const character of ['a', ' ', 'ë', '日', '🎉', '\u0301']) {
		t.notRegex(character, one);
	}
});

test('a name can contain joiners, but no direction overrides', t => {
	const bad = new RegExp(`[${badInNames}]`, 'u');
	t.notRegex('می\u200cخواهم 👩\u200d🚒', bad);
	t.regex('user\u202egro.elpmaxe', bad);
	t.regex('a\nb', bad);
});

test('the text of a reply keeps line feeds but no other unprintable characters', t => {
	t.is(smtpReply(550, ['5.1.1 no\u200b such\u001b[31m', 'user\u202e']).text, '5.1.1 no  such [31m\nuser');
});

test('the enhanced code of a reply can be in a later line if it matches', t => {
	const enhanced = (...lines: string[]) => smtpReply(550, lines).enhanced;
	t.is(enhanced('sorry', '5.1.1 no such user'), '5.1.1');
	t.is(enhanced('4.7.0 sorry', '5.1.1 no such user'), '5.1.1');
	t.is(enhanced('4.7.0 sorry', 'no such user'), '4.7.0');
	t.is(enhanced('sorry', '4.7.0 no such user'), null);
	t.is(enhanced('sorry, 5.1.1 no such user', '5.1.1.7 x'), null);
});

test('removes line endings from header values', t => {
	t.is(withoutControls('a\r\nb\u0085c\u2028d\u200d'), 'a b c d\u200d');
});
