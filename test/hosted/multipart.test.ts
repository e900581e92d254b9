import test from 'ava';
import fc from 'fast-check';
import {readMultipart} from '../../src/hosted/multipart.ts';

const typeOf = (boundary: string) => `multipart/form-data; boundary=${boundary}`;

test('the example of RFC 8058 §3.2', t => {
	const body = [
		'------FormBoundaryjWmhtjORrn',
		'Content-Disposition: form-data; name="List-Unsubscribe"',
		'',
		'One-Click',
		'------FormBoundaryjWmhtjORrn--',
		'',
	].join('\r\n');
	t.deepEqual(readMultipart(body, typeOf('----FormBoundaryjWmhtjORrn')), [
		{name: 'List-Unsubscribe', value: 'One-Click'},
	]);
});

test('a value may hold the boundary, and be of many lines', t => {
	const body = '--x\r\nContent-Disposition: form-data; name="token"\r\n\r\naxb--x\r\n--xy\r\n\r\n--x--\r\n';
	t.deepEqual(readMultipart(body, typeOf('x')), [{name: 'token', value: 'axb--x\r\n--xy\r\n'}]);
});

test('read as well: a preamble, an epilogue, other header fields, no quotes, no spaces, lines that end in LF', t => {
	const token = [{name: 'token', value: 'abc'}];
	const read = (lines: readonly string[], end = '\r\n', type = typeOf('b')) => readMultipart(lines.join(end), type);
	const named = 'Content-Disposition: form-data; name="token"';
	t.deepEqual(read(['preamble', '--b', named, '', 'abc', '--b--', 'epilogue', '--b', named, '', 'x', '--b--']), token);
	t.deepEqual(read(['', '--b', 'Content-Length: 3', named, 'Content-Type: text/plain', '', 'abc', '--b--']), token);
	t.deepEqual(read(['--b', 'content-disposition:form-data;name=token', '', 'abc', '--b--']), token);
	t.deepEqual(read(['--b', named, '', 'abc', '--b--'], '\n'), token);
	t.deepEqual(
		read(['--b  ', named, '', 'abc', '--b-- '], '\r\n', 'Multipart/Form-Data;charset=utf-8;Boundary="b"'),
		token,
	);
});

test('parts without a name or an end are none; without a boundary there is no form', t => {
	t.deepEqual(readMultipart('--b\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--b--', typeOf('b')), []);
	t.deepEqual(readMultipart('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nabc', typeOf('b')), []);
	t.deepEqual(readMultipart('', typeOf('b')), []);
	t.is(readMultipart('--\r\n\r\n', 'multipart/form-data'), null);
	t.is(readMultipart('--\r\n\r\n', typeOf('""')), null);
});

test('what the platform writes is read as it was', async t => {
	const text = fc.string({unit: 'grapheme-ascii'});
	await fc.assert(
		fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom('token', 'action', 'b'), text)), async pairs => {
			const form = new FormData();
			for (const [name, value] of pairs) {
				form.append(name, value);
			}
			const sent = new Response(form);
			const fields = readMultipart(await sent.text(), sent.headers.get('content-type') ?? '');
			t.deepEqual(
				fields,
				pairs.map(([name, value]) => ({name, value})),
			);
		}),
	);
});
