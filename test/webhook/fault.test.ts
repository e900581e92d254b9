import test from 'ava';
import {faultInWords} from '../../src/webhook/fault.ts';

const coded = (code: string, message = 'no') => Object.assign(new Error(message), {code});

test('known codes have a sentence of ours, others keep their own, and nothing can draw on a terminal', t => {
	t.is(faultInWords(coded('ECONNREFUSED')), 'the connection was refused: nothing listens there (ECONNREFUSED)');
	t.is(faultInWords(coded('toString')), 'no (toString)');
	t.is(faultInWords(coded('EODD', 'EODD: odd')), 'EODD: odd');
	t.is(
		faultInWords(new AggregateError([coded('ENETUNREACH'), coded('ECONNREFUSED')])),
		'the connection was refused: nothing listens there (ECONNREFUSED)',
	);
	t.is(faultInWords('\u001b[31mred\u202e\r\n'), ' [31mred ');
	t.is(faultInWords(new Error('x'.repeat(1000))).length, 200);
});
