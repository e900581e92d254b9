import test from 'ava';
import fc from 'fast-check';
import {submittedFile} from '../../src/mail/message.ts';
import {
	maxQueryTerms,
	messageIdTerm,
	metadataTerm,
	queryTerms,
	searchTerms,
	subjectTerms,
	tagTerm,
	toTerms,
	valueTerm,
} from '../../src/mail/terms.ts';
import {anyChar} from '../helpers/any-char.ts';

test('finds the words of a subject in any order, case and compatibility form', t => {
	const terms = subjectTerms('Ihr Beleg Nr. 1042 – GRÖSSER, größer & ﬁnal!');
	t.deepEqual(terms, ['w:ihr', 'w:beleg', 'w:nr', 'w:1042', 'w:grösser', 'w:größer', 'w:final']);
	for (const words of ['beleg', '1042 BELEG', 'GRÖSSER', 'final, ihr']) {
		t.true(
			queryTerms(words)?.every(term => terms.includes(term)),
			words,
		);
	}
	t.false(
		queryTerms('bele')?.every(term => terms.includes(term)),
		'words are whole',
	);
	for (const none of ['', ' ', '–!?', '\0']) {
		t.is(queryTerms(none), null);
	}
	const words = (n: number) => Array.from({length: n}, (_, index) => `w${index}`).join(' ');
	t.is(queryTerms(words(maxQueryTerms))?.length, maxQueryTerms);
	t.is(queryTerms(words(maxQueryTerms + 1)), null);
});

test('each pair of metadata has a term of its own', t => {
	const pair = fc.tuple(
		fc.string({minLength: 1, maxLength: 8, unit: fc.constantFrom('a', '=', ':', '1')}),
		fc.string(),
	);
	fc.assert(
		fc.property(pair, pair, ([keyA, a], [keyB, b]) => {
			t.is(metadataTerm(keyA, a) === metadataTerm(keyB, b), keyA === keyB && a === b);
			t.false([tagTerm(a), ...subjectTerms(a)].includes(metadataTerm(keyB, b)));
		}),
	);
	t.deepEqual(toTerms({metadata: '{"a":"1","b":""}', tags: '["x","x","y"]', attachments: []}), [
		'm1:a=1',
		'm1:b=',
		'v:1',
		't:x',
		't:y',
	]);
	t.deepEqual(toTerms({metadata: null, tags: null, attachments: []}), []);
	const terms = (messageId: string | null) =>
		toTerms({metadata: null, tags: null, attachments: [submittedFile(messageId, Buffer.alloc(0))]});
	t.deepEqual(terms('<1@a.example>'), ['i:1@a.example']);
	t.deepEqual(terms('<1@a.example>'), [messageIdTerm('1@a.example')]);
	t.deepEqual(terms(null), []);
	const file = {filename: '<1@a.example>', contentType: 'text/plain'};
	t.deepEqual(toTerms({metadata: null, tags: null, attachments: [file]}), [], 'of a caller of the API');
});

test('the terms of any subject are few, short, storable and findable', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar, maxLength: 3000}), subject => {
			const terms = subjectTerms(subject);
			t.true(terms.length <= 30);
			for (const term of terms) {
				t.true([...term].length <= 42);
				t.notRegex(term, /[\0\p{Cs}]/u);
				t.deepEqual(queryTerms(term.slice(2)), [term]);
			}
		}),
	);
});

test('a query finds a message by words of its subject, its values or both', t => {
	const metadata = {
		order: '1042',
		name: 'Ada  LOVELACE',
		ref: 'AB-7/x',
		url: 'https://shop.example/?a=1',
		n: '\u0661',
	};
	const terms = [
		...subjectTerms('Your receipt 55'),
		...toTerms({metadata: JSON.stringify(metadata), tags: null, attachments: []}),
	];
	const finds = (text: string) => searchTerms(text).every(asked => [asked].flat().some(term => terms.includes(term)));
	const found = [
		'1042',
		' 1042 ',
		'１０４２',
		'ada lovelace',
		'AB-7/X',
		'https://shop.example/?a=1',
		'\u0661',
		'55 1042',
	];
	for (const text of [...found, 'receipt 1042', '1042 YOUR ab-7/x', 'your-receipt']) {
		t.true(finds(text), text);
	}
	for (const text of ['104', '10421', 'ada', 'lovelace ada', 'AB-7', '1042 none', 'order', '', '-']) {
		t.false(finds(text), text);
	}
});

test('finds any value, whose term fits into an index', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar, minLength: 1, maxLength: 500}), value => {
			const terms = toTerms({metadata: JSON.stringify({a: value}), tags: null, attachments: []});
			const term = valueTerm(value);
			t.is(terms.includes(term), value.trim() !== '');
			t.true(Buffer.byteLength(term) <= 2100);
			t.true(searchTerms(value).every(asked => [asked].flat().includes(term)));
			t.false([tagTerm(value), ...subjectTerms(value), metadataTerm('a', value)].includes(term));
		}),
	);
	t.true(Buffer.byteLength(valueTerm('\ufdfa'.repeat(500))) <= 2100, 'one character that stands for many');
});
