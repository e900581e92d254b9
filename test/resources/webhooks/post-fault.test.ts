import test from 'ava';
import fc from 'fast-check';
import {PostProblem, toProblem} from '../../../src/resources/webhooks/connections.ts';
import {anyChar} from '../../helpers/any-char.ts';

const coded = (code: string, message = 'no') => Object.assign(new Error(message), {code});
const errorOf = (error: unknown) => toProblem(error).error;

test('describes known error codes and shows only the code of others', t => {
	t.is(errorOf(coded('ECONNREFUSED')), 'the connection was refused: nothing is listening there (ECONNREFUSED)');
	t.is(errorOf(coded('toString')), 'the attempt failed (toString)');
	t.is(errorOf(coded('EODD', 'EODD: odd')), 'the attempt failed (EODD)');
	t.is(errorOf(coded('<script>')), 'the attempt failed');
	t.is(
		errorOf(new AggregateError([coded('ENETUNREACH'), coded('ECONNREFUSED')])),
		'the connection was refused: nothing is listening there (ECONNREFUSED)',
	);
	t.is(errorOf(new Error('something')), 'the attempt failed');
	t.is(errorOf(new PostProblem('no connection in time')), 'no connection in time');
});

test('shows addresses only to the operator, whatever contains them', t => {
	const faults = [
		coded('EACCES', 'connect EACCES 10.1.2.3:443 - Local (192.168.0.2:0)'),
		coded('ECONNREFUSED', 'connect ECONNREFUSED 10.1.2.3:443'),
		new AggregateError([coded('EINVAL', 'connect EINVAL fd00::7:443')], 'all of 10.1.2.3, fd00::7'),
		coded('ERR_TLS_CERT_ALTNAME_INVALID', 'Host: x. is not in the cert altnames: DNS:10.1.2.3.corp.internal'),
		new Error('10.1.2.3'),
		'fd00::7',
		new PostProblem('the host has an address that is not public', 'the host has the address 10.1.2.3'),
	];
	for (const fault of faults) {
		const {error, detail} = toProblem(fault);
		t.notRegex(error, /10\.1|192\.168|fd00|corp/, error);
		t.regex(detail ?? '', /10\.1\.2\.3|fd00::7/);
	}
});

test('errors are short and free of control characters', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar}), fc.string({unit: anyChar}), (code, message) => {
			const {error, detail} = toProblem(coded(code, message));
			t.regex(error, /^[ -~]{1,200}$/);
			t.notRegex(detail ?? '', /[\p{Cc}\p{Cf}]/u);
			t.true((detail ?? '').length <= 200);
		}),
	);
});
