import test from 'ava';
import {withoutAdvice} from '../../src/mail/outcome.ts';

test('advice about options of Node.js is cut off, and nothing else', t => {
	const advice = 'if the root CA is installed locally, try running Node.js with --use-system-ca';
	t.is(withoutAdvice(`self-signed certificate; ${advice}`), 'self-signed certificate');
	t.is(withoutAdvice('self-signed certificate in certificate chain'), 'self-signed certificate in certificate chain');
});
