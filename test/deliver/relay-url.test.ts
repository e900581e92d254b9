import test from 'ava';
import fc from 'fast-check';
import {parseRelayUrl, parseRelayUrls, type Relay} from '../../src/deliver/relay-url.ts';

const good: ReadonlyArray<readonly [text: string, expected: Partial<Relay>]> = [
	[
		'smtp://mail.example.com',
		{host: 'mail.example.com', port: 25, tls: 'opportunistic', implicitTls: false, login: null},
	],
	['smtp://mail', {host: 'mail', port: 25}],
	['SMTP://Mail.Example.com.:2525/', {host: 'mail.example.com', port: 2525}],
	['smtp://u:p@mail.example.com', {port: 587, tls: 'required', login: {user: 'u', password: 'p'}}],
	['smtp://u%40x.test:p%3A%2F%40%C3%A4@h.test', {login: {user: 'u@x.test', password: 'p:/@ä'}}],
	['smtp://u:p:q@h.test', {login: {user: 'u', password: 'p:q'}}],
	['smtp://u:p@h.test:25?tls=opportunistic', {port: 25, tls: 'opportunistic'}],
	['smtp://h.test?tls=none', {tls: 'none'}],
	['smtp://h.test/?tls=unverified', {tls: 'unverified'}],
	['smtps://h.test', {port: 465, tls: 'opportunistic', implicitTls: true}],
	['smtps://u:p@h.test', {port: 465, tls: 'required', implicitTls: true}],
	['smtp://[2001:db8::1]:26', {host: '2001:db8::1', port: 26}],
	['smtp://192.0.2.1', {host: '192.0.2.1'}],
	['smtp://u:p@127.0.0.1?tls=none', {tls: 'none', port: 587}],
	['smtp://u:p@localhost:2525?tls=none', {tls: 'none', port: 2525}],
	['smtp://u:p@[::1]?tls=none', {tls: 'none'}],
];
for (const [text, expected] of good) {
	test(text, t => {
		t.like(parseRelayUrl(text) as Relay, expected);
	});
}

const bad: ReadonlyArray<readonly [text: string, fault: RegExp]> = [
	['', /must look like/],
	['mail.example.com', /must look like/],
	['http://h.test', /must look like/],
	['smtp://', /must look like/],
	['smtp://h.test/path', /must look like/],
	['smtp://h.test#x', /must look like/],
	['smtp://a@b@h.test', /must look like/],
	['smtp://h.test:99999', /no port/],
	['smtp://h.test:0', /no port/],
	['smtp://h.test:x', /must look like/],
	['smtp://u@h.test', /both user and password/],
	['smtp://u:@h.test', /both user and password/],
	['smtp://:p@h.test', /both user and password/],
	['smtp://u:%zz@h.test', /percent-encoded/],
	['smtp://u:a%0d%0ab@h.test', /percent-encoded/],
	['smtp://u:a%00b@h.test', /percent-encoded/],
	['smtp://u:p@h.test?tls=none', /only to a loopback/],
	['smtp://h.test?tls=yes', /not known/],
	['smtp://h.test?foo=1', /not known/],
	['smtp://h.test?tls=none&tls=required', /not known/],
	['smtps://h.test?tls=none', /contradicts/],
	['smtp://-h.test', /no host name/],
	['smtp://h..test', /no host name/],
	['smtp://127.1', /no host name/],
	['smtp://0x7f000001.1', /no host name/],
	['smtp://[1.2.3.4]', /no host name/],
	['smtp://h test', /no host name/],
];
for (const [text, fault] of bad) {
	test(`refused: ${text || 'nothing'}`, t => {
		const said = parseRelayUrl(text);
		t.is(typeof said, 'string');
		t.regex(said as string, fault);
	});
}

test('several, and all their faults', t => {
	t.deepEqual(
		parseRelayUrls('smtp://a.test, smtp://b.test:2525').relays.map(({host, port}) => `${host}:${port}`),
		['a.test:25', 'b.test:2525'],
	);
	t.is(parseRelayUrls('smtp://a.test,x,smtp://h.test:0').faults.length, 2);
});

test('a fault never shows the password', t => {
	fc.assert(
		fc.property(fc.constantFrom('?tls=none', '?tls=x', ':0', ':99999', '/x', '?x=1'), rest => {
			const said = parseRelayUrl(`smtp://user:hunter2secret@h.test${rest}`);
			t.true(typeof said === 'string' && !said.includes('hunter2secret'));
		}),
	);
});

test('any text is parsed or refused', t => {
	fc.assert(
		fc.property(
			fc.oneof(
				fc.string(),
				fc.string().map(text => `smtp://${text}`),
			),
			text => {
				const said = parseRelayUrl(text);
				t.true(typeof said === 'string' || (said.host !== '' && said.port >= 1 && said.port <= 65_535));
			},
		),
	);
});
