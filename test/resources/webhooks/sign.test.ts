import {execFileSync} from 'node:child_process';
import test from 'ava';
import {signature, signingAt} from '../../../src/resources/webhooks/post.ts';

test('the signature equals that of OpenSSL over timestamp, dot and body', t => {
	const secret = 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456';
	const body = Buffer.from('{"type":"delivered","recipient":"ü@shop.example","metadata":{"a":"\\u0000"}}');
	const headers = signature({secret, next: null}, 1_780_999_999_999, body);
	t.is(headers['x-webhook-timestamp'], '1780999999');
	const input = Buffer.concat([Buffer.from('1780999999.'), body]);
	const said = execFileSync('openssl', ['dgst', '-sha256', '-hmac', secret, '-r'], {input}).toString();
	t.is(headers['x-webhook-signature'], `sha256=${said.split(' ')[0]}`);
});

test('signs with the old and the new secret until the overlap ends, then with the new one alone', t => {
	const rotated = {secret: 'new', previousSecret: 'old', previousUntil: '2026-06-09T10:15:30.000Z'};
	t.deepEqual(signingAt(rotated, '2026-06-09T10:15:29.999Z'), {secret: 'old', next: 'new'});
	t.deepEqual(signingAt(rotated, '2026-06-09T10:15:30.000Z'), {secret: 'new', next: null});
	const alone = {secret: 'new', previousSecret: null, previousUntil: null};
	t.deepEqual(signingAt(alone, '2026-06-09T10:15:29.999Z'), {secret: 'new', next: null});

	const body = Buffer.from('{}');
	const both = signature({secret: 'old', next: 'new'}, 1_780_999_999_999, body);
	t.is(
		both['x-webhook-signature'],
		signature({secret: 'old', next: null}, 1_780_999_999_999, body)['x-webhook-signature'],
	);
	t.is(
		both['x-webhook-signature-next'],
		signature({secret: 'new', next: null}, 1_780_999_999_999, body)['x-webhook-signature'],
	);
	t.false('x-webhook-signature-next' in signature({secret: 'new', next: null}, 0, body));
});
