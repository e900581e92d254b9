import {execFileSync} from 'node:child_process';
import test from 'ava';
import {signature} from '../../src/webhook/sign.ts';

test('the signature is what OpenSSL computes over timestamp, dot and body', t => {
	const secret = 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456';
	const body = Buffer.from('{"type":"delivered","recipient":"ü@shop.example","metadata":{"a":"\\u0000"}}');
	const headers = signature(secret, 1_780_999_999_999, body);
	t.is(headers['x-webhook-timestamp'], '1780999999');
	const input = Buffer.concat([Buffer.from('1780999999.'), body]);
	const said = execFileSync('openssl', ['dgst', '-sha256', '-hmac', secret, '-r'], {input}).toString();
	t.is(headers['x-webhook-signature'], `sha256=${said.split(' ')[0]}`);
});
