import test from 'ava';
import fc from 'fast-check';
import {readForm} from '../../src/hosted/form.ts';

const urlencoded = 'application/x-www-form-urlencoded';
const none = {token: null, action: null};

function multipart(fields: Record<string, string>, boundary: string): Buffer {
	const parts = Object.entries(fields).map(
		([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
	);
	return Buffer.from(`${parts.join('')}--${boundary}--\r\n`);
}

test('urlencoded: the two fields, the first of each, and nothing else', t => {
	const read = (text: string) => readForm(Buffer.from(text), urlencoded);
	t.deepEqual(read('token=abc-_&action=all&other=1'), {token: 'abc-_', action: 'all'});
	t.deepEqual(read('action=undo&action=all'), {token: null, action: 'undo'});
	t.deepEqual(read('List-Unsubscribe=One-Click'), none);
	t.deepEqual(read(''), none);
	t.deepEqual(read('action='), {token: null, action: ''});
});

test('multipart: the same; a file fits nothing', t => {
	const type = 'multipart/form-data; boundary="----x"';
	t.deepEqual(readForm(multipart({token: 'abc', action: 'topic', more: ''}, '----x'), type), {
		token: 'abc',
		action: 'topic',
	});
	t.deepEqual(readForm(multipart({'List-Unsubscribe': 'One-Click'}, '----x'), type), none);
	t.deepEqual(readForm(multipart({'action"; filename="a.txt': 'all'}, '----x'), type), {token: null, action: ''});
});

test('a form that cannot be read is an empty one', t => {
	t.deepEqual(readForm(Buffer.from('--y\r\nnonsense'), 'multipart/form-data; boundary=x'), none);
	t.deepEqual(readForm(Buffer.from('x'), 'multipart/form-data'), none);
});

test('any bytes make a form', t => {
	const bytes = fc.oneof(
		fc.uint8Array({maxLength: 300}),
		fc.string().map(text => Buffer.from(text)),
		fc.dictionary(fc.string(), fc.string()).map(fields => multipart(fields, 'x')),
	);
	const type = fc.constantFrom(
		urlencoded,
		'multipart/form-data; boundary=x',
		'multipart/form-data; boundary="',
		'multipart/form-data',
	);
	fc.assert(
		fc.property(bytes, type, (body, contentType) => {
			const {token, action} = readForm(body, contentType);
			t.true([token, action].every(value => value === null || typeof value === 'string'));
		}),
		{numRuns: 300},
	);
});

test('what a browser sends comes back as it was', t => {
	fc.assert(
		fc.property(fc.string(), fc.string(), (token, action) => {
			const body = Buffer.from(new URLSearchParams({token, action}).toString());
			t.deepEqual(readForm(body, urlencoded), {token: token, action: action});
		}),
	);
});
