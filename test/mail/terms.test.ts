import test from 'ava';
import fc from 'fast-check';
import {submittedFile} from '../../src/mail/message.ts';
import {
	askedTerms,
	messageIdTerm,
	metadataTerm,
	mostAsked,
	subjectTerms,
	tagTerm,
	termsOf,
} from '../../src/mail/terms.ts';

test('the words of a subject are found in any order, case and compatibility form', t => {
	const terms = subjectTerms('Ihr Beleg Nr. 1042 – GRÖSSER, größer & ﬁnal!');
	t.deepEqual(terms, ['w:ihr', 'w:beleg', 'w:nr', 'w:1042', 'w:grösser', 'w:größer', 'w:final']);
	for (const words of ['beleg', '1042 BELEG', 'GRÖSSER', 'final, ihr']) {
		t.true(
			askedTerms(words)?.every(term => terms.includes(term)),
			words,
		);
	}
	t.false(
		askedTerms('bele')?.every(term => terms.includes(term)),
		'words are whole',
	);
	for (const none of ['', ' ', '–!?', '\0']) {
		t.is(askedTerms(none), null);
	}
	const words = (n: number) => Array.from({length: n}, (_, index) => `w${index}`).join(' ');
	t.is(askedTerms(words(mostAsked))?.length, mostAsked);
	t.is(askedTerms(words(mostAsked + 1)), null);
});

test('no two pairs of metadata, and nothing else, share a term', t => {
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
	t.deepEqual(termsOf({metadata: '{"a":"1","b":""}', tags: '["x","x","y"]', attachments: []}), [
		'm1:a=1',
		'm1:b=',
		't:x',
		't:y',
	]);
	t.deepEqual(termsOf({metadata: null, tags: null, attachments: []}), []);
	const terms = (messageId: string | null) =>
		termsOf({metadata: null, tags: null, attachments: [submittedFile(messageId, Buffer.alloc(0))]});
	t.deepEqual(terms('<1@a.example>'), ['i:1@a.example']);
	t.deepEqual(terms('<1@a.example>'), [messageIdTerm('1@a.example')]);
	t.deepEqual(terms(null), []);
	const file = {filename: '<1@a.example>', contentType: 'text/plain'};
	t.deepEqual(termsOf({metadata: null, tags: null, attachments: [file]}), [], 'of a caller of the API');
});

test('whatever a subject holds, its terms are few, short, storable and found', t => {
	fc.assert(
		fc.property(fc.string({unit: 'binary', maxLength: 3000}), subject => {
			const terms = subjectTerms(subject);
			t.true(terms.length <= 30);
			for (const term of terms) {
				t.true([...term].length <= 42);
				t.notRegex(term, /[\0\p{Cs}]/u);
				t.deepEqual(askedTerms(term.slice(2)), [term]);
			}
		}),
	);
});
