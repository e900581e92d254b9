import test from 'ava';
import fc from 'fast-check';
import {parseTagList, tagParts} from '../../src/mail/dkim-record.ts';
import {anyChar} from '../helpers/any-char.ts';

test('parses a tag list with any spacing', t => {
	const plain = [
		['v', 'DKIM1'],
		['k', 'rsa'],
		['p', 'AB=='],
	];
	for (const text of ['v=DKIM1;k=rsa;p=AB==', ' v = DKIM1 ; k= rsa;\r\n\tp=AB== ;', 'v=DKIM1; k=rsa; p=AB==;  ']) {
		t.deepEqual([...(parseTagList(text) ?? [])], plain, JSON.stringify(text));
	}
	t.is(parseTagList('p=;n=a b')?.get('p'), '');
});

for (const text of ['', 'v', 'v=1;;p=2', 'v=1;v=2', '1v=a', 'v w=1', '=a', ';', `p=${'A'.repeat(20_000)}`]) {
	test(`rejects the tag list ${JSON.stringify(text.slice(0, 20))}`, t => {
		t.is(parseTagList(text), undefined);
	});
}

test('tag names are case-sensitive and never properties of Object.prototype', t => {
	t.true(parseTagList('P=1;p=2')?.has('P'));
	t.is(parseTagList('p=1')?.get('constructor'), undefined);
});

test('splits a value into parts', t => {
	t.deepEqual(tagParts(' y : s:'), ['y', 's']);
	t.deepEqual(tagParts(undefined), []);
});

const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/);
const value = fc.stringMatching(/^[!-:<-~]{0,40}$/);

test('parses any tags that were written as a list', t => {
	fc.assert(
		fc.property(
			fc.uniqueArray(fc.tuple(name, value), {selector: ([key]) => key, minLength: 1}),
			fc.constantFrom('', ' ', '\t'),
			(tags, space) => {
				const text = tags.map(([key, text]) => `${space}${key}${space}=${space}${text}${space}`).join(';');
				t.deepEqual([...(parseTagList(text) ?? [])], tags);
			},
		),
	);
});

test('parses or rejects any text as a tag list', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar}), text => {
			const tags = parseTagList(text);
			t.true(tags === undefined || [...tags].every(([key, value]) => key !== '' && !value.includes(';')));
		}),
	);
});
