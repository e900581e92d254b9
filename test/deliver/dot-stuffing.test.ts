import test from 'ava';
import fc from 'fast-check';
import {dotStuffed} from '../../src/deliver/transaction.ts';

const stuffed = (text: string) => Buffer.concat(dotStuffed(Buffer.from(text))).toString();

test('doubles dots at the start of a line and appends the terminator', t => {
	t.is(stuffed('a\r\n'), 'a\r\n.\r\n');
	t.is(stuffed('.\r\n'), '..\r\n.\r\n');
	t.is(stuffed('a\r\n.b\r\n..c\r\nd.\r\n'), 'a\r\n..b\r\n...c\r\nd.\r\n.\r\n');
	t.is(stuffed('no line end'), 'no line end\r\n.\r\n');
	t.is(stuffed('a\r\n.'), 'a\r\n..\r\n.\r\n');
	t.is(stuffed(''), '\r\n.\r\n');
});

test('doubles dots after a bare CR or LF too', t => {
	t.is(stuffed('a\n.\r\nb\r.\rc\r\n'), 'a\n..\r\nb\r..\rc\r\n.\r\n');
});

test('does not copy data that has no dot at the start of a line', t => {
	const data = new Uint8Array(Buffer.from('Subject: x\r\n\r\ny.z\r\n'));
	const [first] = dotStuffed(data);
	t.is(first?.buffer, data.buffer);
});

test('a receiver restores any message with CRLF line endings and finds exactly one terminator', t => {
	const line = fc.string({unit: fc.constantFrom('.', 'a', ' ')});
	fc.assert(
		fc.property(fc.array(line, {minLength: 1}), lines => {
			const text = `${lines.join('\r\n')}\r\n`;
			const wire = stuffed(text);
			t.is(`\r\n${wire}`.indexOf('\r\n.\r\n'), wire.length - 3);
			t.is(wire.slice(0, -3).replace(/(^|\r\n)\./g, '$1'), text);
		}),
	);
});

test('never contains an early end of data, however the receiver reads line endings', t => {
	const byte = fc.constantFrom('.', '\r', '\n', 'a');
	fc.assert(
		fc.property(fc.string({unit: byte, maxLength: 40}), text => {
			const wire = `\r\n${stuffed(text)}`;
			t.is(wire.search(/(\r\n|\r|\n)\.(\r\n|\r|\n)/), wire.length - 5);
		}),
		{numRuns: 2000},
	);
});
