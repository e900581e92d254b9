import test from 'ava';
import {withoutAdvice} from '../../src/mail/outcome.ts';

test('removes only advice about Node.js options', t => {
	const advice = 'if the root CA is installed locally, try running Node.js with --use-system-ca';
	t.is(withoutAdvice(`self-signed certificate; ${advice}`), 'self-signed certificate');
	t.is(withoutAdvice('self-signed certificate in certificate chain'), 'self-signed certificate in certificate chain');
});
