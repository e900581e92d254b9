import test from 'ava';
import fc from 'fast-check';
import {parseRelayUrl, type Relay} from '../../src/net/relay-url.ts';
import {anyChar} from '../helpers/any-char.ts';

const open = {secure: false, tls: 'opportunistic', user: null, password: null} as const;
const api = {secure: true, tls: 'required', port: 443} as const;
const good: Array<[string, Relay]> = [
	['smtp://mail.example', {...open, host: 'mail.example', port: 25}],
	['SMTP://Mail.Example/', {...open, host: 'mail.example', port: 25}],
	['smtp://mail.example:2525?tls=none', {...open, host: 'mail.example', port: 2525, tls: 'none'}],
	['smtp://[::1]:2525', {...open, host: '::1', port: 2525}],
	['smtp://127.0.0.1', {...open, host: '127.0.0.1', port: 25}],
	['smtp://bücher.example', {...open, host: 'xn--bcher-kva.example', port: 25}],
	['smtp://post_fix', {...open, host: 'post_fix', port: 25}],
	['smtps://mail.example', {...open, host: 'mail.example', port: 465, secure: true}],
	[
		'smtps://mail.example?tls=unverified',
		{...open, host: 'mail.example', port: 465, secure: true, tls: 'unverified'},
	],
	[
		'smtp://app%40shop.example:p%3Aw%2C%40@mail.example',
		{host: 'mail.example', port: 587, secure: false, tls: 'required', user: 'app@shop.example', password: 'p:w,@'},
	],
	[
		'smtps://u:p@mail.example',
		{host: 'mail.example', port: 465, secure: true, tls: 'required', user: 'u', password: 'p'},
	],
	[
		'smtp://u:p@mail.example?tls=opportunistic',
		{host: 'mail.example', port: 587, secure: false, tls: 'opportunistic', user: 'u', password: 'p'},
	],
	...['localhost', '127.8.9.1'].map((host): [string, Relay] => [
		`smtp://u:p:q@${host}:25?tls=none`,
		{host, port: 25, secure: false, tls: 'none', user: 'u', password: 'p:q'},
	]),
	['smtp://u:p@[::1]?tls=none', {host: '::1', port: 587, secure: false, tls: 'none', user: 'u', password: 'p'}],
	[
		'ses://AKID:a%2Fb%2Bc@eu-west-1',
		{...api, host: 'email.eu-west-1.amazonaws.com', user: 'AKID', password: 'a/b+c', api: 'ses'},
	],
	[
		'postmark+https://tok%2Fen@api.postmarkapp.com',
		{...api, host: 'api.postmarkapp.com', user: 'c7c0a04b', password: 'tok/en', api: 'postmark'},
	],
	[
		'mailgun+https://key-1@API.eu.mailgun.net/mg.Shop.example',
		{...api, host: 'api.eu.mailgun.net', user: 'mg.shop.example', password: 'key-1', api: 'mailgun'},
	],
];

for (const [text, relay] of good) {
	test(`parses the relay URL ${text}`, t => {
		t.deepEqual(parseRelayUrl(text), {ok: true, relay});
	});
}

const bad: Array<[string, RegExp]> = [
	['', /is not smtp/],
	['mail.example', /is not smtp/],
	['http://mail.example', /is not smtp/],
	['smtp://', /no valid host/],
	['smtp://mail example', /no valid host/],
	['smtp://-mail.example', /no valid host/],
	['smtp://999.1.1.1', /no valid host/],
	['smtp://[127.0.0.1]', /no valid host/],
	['smtp://[fe80::1%25eth0]', /no valid host/],
	[`smtp://${'a.'.repeat(127)}example`, /no valid host/],
	['smtp://mail.example:0', /port/],
	['smtp://mail.example:65536', /port/],
	['smtp://mail.example:', /port/],
	['smtp://mail.example:2 5', /port/],
	['smtp://mail.example/path', /is not smtp/],
	['smtp://u:p@q@mail.example', /is not smtp/],
	['smtp://user@mail.example', /user:password/],
	['smtp://user:@mail.example', /user:password/],
	['smtp://:pass@mail.example', /user:password/],
	['smtp://u:%zz@mail.example', /user:password/],
	['smtp://u:a%00b@mail.example', /user:password/],
	['smtp://mail.example?tls=maybe', /unknown option/],
	['smtp://mail.example?tls=none&tls=required', /unknown option/],
	['smtp://mail.example?timeout=5', /unknown option/],
	['smtps://mail.example?tls=none', /contradict/],
	['smtp://u:p@mail.example?tls=none', /unencrypted/],
	['smtp://u:p@127.0.0.1.example?tls=none', /unencrypted/],
	['ses://AKID@eu-west-1', /is not ses:/],
	['ses://AKID:secret@eu-west-1/x', /is not ses:/],
	['ses://AKID:secret@email.eu-west-1.amazonaws.com', /is not ses:/],
	['ses://AKID:sec ret@eu-west-1', /is not ses:/],
	['mailgun+https://key@api.mailgun.net', /is not mailgun/],
	['mailgun+https://api:key@api.mailgun.net/mg.example', /is not mailgun/],
	['mailgun+https://key@127.0.0.1/mg.example', /is not mailgun/],
	['mailgun+https://k%0Ay@api.mailgun.net/mg.example', /is not mailgun/],
	['postmark+https://token@api.postmarkapp.com/x', /is not postmark/],
	['postmark+https://@api.postmarkapp.com', /is not postmark/],
	['mailgun://key@api.mailgun.net/mg.example', /is not mailgun/],
];

for (const [text, fault] of bad) {
	test(`rejects the relay URL ${text.slice(0, 60)}`, t => {
		const parsed = parseRelayUrl(text);
		t.regex(parsed.ok ? '' : parsed.problem, fault);
	});
}

test('parses or rejects any text without repeating a password in the error', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar}), rest => {
			for (const text of [
				rest,
				`smtp://${rest}`,
				`smtp://user:hunter2secret@${rest}`,
				`smtps://u:p@h?${rest}`,
				`ses://K:hunter2secret@${rest}`,
				`mailgun+https://hunter2secret@${rest}`,
				`postmark+https://hunter2secret${rest}`,
			]) {
				const parsed = parseRelayUrl(text);
				t.true(parsed.ok || !parsed.problem.includes('hunter2secret'));
			}
		}),
	);
});

test('decodes any percent-encoded token and keeps it out of the account name', t => {
	fc.assert(
		fc.property(fc.stringMatching(/^[!-~]{20,40}$/), token => {
			const encoded = encodeURIComponent(token);
			for (const [url, user] of [
				[`ses://AKID:${encoded}@us-gov-west-1`, 'AKID'],
				[`mailgun+https://${encoded}@api.mailgun.net/mg.example`, 'mg.example'],
				[`postmark+https://${encoded}@api.postmarkapp.com`, null],
			] as const) {
				const parsed = parseRelayUrl(url);
				t.like(parsed, {ok: true, relay: {password: token, ...(user !== null && {user})}});
				t.false(parsed.ok && parsed.relay.user?.includes(token));
			}
		}),
	);
});

test('decodes any percent-encoded user and password', t => {
	const printable = fc.string({unit: 'grapheme', minLength: 1}).filter(text => !/[\u0000-\u001f\u007f]/.test(text));
	fc.assert(
		fc.property(printable, printable, (user, password) => {
			const parsed = parseRelayUrl(
				`smtp://${encodeURIComponent(user)}:${encodeURIComponent(password)}@mail.example`,
			);
			t.like(parsed, {ok: true, relay: {user, password}});
		}),
	);
});
