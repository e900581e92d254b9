import test from 'ava';
import fc from 'fast-check';
import {readFields, readMultipart, toForm} from '../../src/hosted/form.ts';

const urlencoded = 'application/x-www-form-urlencoded';
const readForm = (body: Uint8Array, contentType: string) => toForm(readFields(body, contentType));
const none = {token: null, action: null};

function multipart(fields: Record<string, string>, boundary: string): Buffer {
	const parts = Object.entries(fields).map(
		([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
	);
	return Buffer.from(`${parts.join('')}--${boundary}--\r\n`);
}

test('urlencoded: reads the first of each of the two fields, and nothing else', t => {
	const read = (text: string) => readForm(Buffer.from(text), urlencoded);
	t.deepEqual(read('token=abc-_&action=all&other=1'), {token: 'abc-_', action: 'all'});
	t.deepEqual(read('action=undo&action=all'), {token: null, action: 'undo'});
	t.deepEqual(read('List-Unsubscribe=One-Click'), none);
	t.deepEqual(read(''), none);
	t.deepEqual(read('action='), {token: null, action: ''});
});

test('multipart: reads the same fields, and no files', t => {
	const type = 'multipart/form-data; boundary="----x"';
	t.deepEqual(readForm(multipart({token: 'abc', action: 'topic', more: ''}, '----x'), type), {
		token: 'abc',
		action: 'topic',
	});
	t.deepEqual(readForm(multipart({'List-Unsubscribe': 'One-Click'}, '----x'), type), none);
	t.deepEqual(readForm(multipart({'action"; filename="a.txt': 'all'}, '----x'), type), {token: null, action: ''});
});

test('treats an unreadable form as empty', t => {
	t.deepEqual(readForm(Buffer.from('--y\r\nnonsense'), 'multipart/form-data; boundary=x'), none);
	t.deepEqual(readForm(Buffer.from('x'), 'multipart/form-data'), none);
});

test('reads a form from any bytes', t => {
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

test('reads any values that a browser sends', t => {
	fc.assert(
		fc.property(fc.string(), fc.string(), (token, action) => {
			const body = Buffer.from(new URLSearchParams({token, action}).toString());
			t.deepEqual(readForm(body, urlencoded), {token: token, action: action});
		}),
	);
});

const typeOf = (boundary: string) => `multipart/form-data; boundary=${boundary}`;

test('reads the example of RFC 8058 §3.2', t => {
	const body = [
		'------FormBoundaryjWmhtjORrn',
		'Content-Disposition: form-data; name="List-Unsubscribe"',
		'',
		'One-Click',
		'------FormBoundaryjWmhtjORrn--',
		'',
	].join('\r\n');
	t.deepEqual(readMultipart(Buffer.from(body), typeOf('----FormBoundaryjWmhtjORrn')), [
		{name: 'List-Unsubscribe', value: 'One-Click'},
	]);
});

test('a value can contain the boundary and several lines', t => {
	const body = '--x\r\nContent-Disposition: form-data; name="token"\r\n\r\naxb--x\r\n--xy\r\n\r\n--x--\r\n';
	t.deepEqual(readMultipart(Buffer.from(body), typeOf('x')), [{name: 'token', value: 'axb--x\r\n--xy\r\n'}]);
});

test('accepts a preamble, an epilogue, other headers, no quotes, no spaces and bare LF', t => {
	const token = [{name: 'token', value: 'abc'}];
	const read = (lines: readonly string[], end = '\r\n', type = typeOf('b')) =>
		readMultipart(Buffer.from(lines.join(end)), type);
	const named = 'Content-Disposition: form-data; name="token"';
	t.deepEqual(
		read(['preamble', '--b', named, '', 'abc', '--b--', 'epilogue', '--b', named, '', 'x', '--b--']),
		token,
	);
	t.deepEqual(read(['', '--b', 'Content-Length: 3', named, 'Content-Type: text/plain', '', 'abc', '--b--']), token);
	t.deepEqual(read(['--b', 'content-disposition:form-data;name=token', '', 'abc', '--b--']), token);
	t.deepEqual(read(['--b', named, '', 'abc', '--b--'], '\n'), token);
	t.deepEqual(
		read(['--b  ', named, '', 'abc', '--b-- '], '\r\n', 'Multipart/Form-Data;charset=utf-8;Boundary="b"'),
		token,
	);
});

test('ignores parts without a name or an end; without a boundary there is no form', t => {
	t.deepEqual(
		readMultipart(Buffer.from('--b\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--b--'), typeOf('b')),
		[],
	);
	t.deepEqual(
		readMultipart(Buffer.from('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nabc'), typeOf('b')),
		[],
	);
	t.deepEqual(readMultipart(Buffer.from(''), typeOf('b')), []);
	t.is(readMultipart(Buffer.from('--\r\n\r\n'), 'multipart/form-data'), null);
	t.is(readMultipart(Buffer.from('--\r\n\r\n'), typeOf('""')), null);
});

test('reads any multipart form that the platform writes', async t => {
	const text = fc.string({unit: 'grapheme-ascii'});
	await fc.assert(
		fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom('token', 'action', 'b'), text)), async pairs => {
			const form = new FormData();
			for (const [name, value] of pairs) {
				form.append(name, value);
			}
			const sent = new Response(form);
			const fields = readMultipart(
				new Uint8Array(await sent.arrayBuffer()),
				sent.headers.get('content-type') ?? '',
			);
			t.deepEqual(
				fields,
				pairs.map(([name, value]) => ({name, value})),
			);
		}),
	);
});
