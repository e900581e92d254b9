import test from 'ava';
import fc from 'fast-check';
import {readBranding, validAccent, validLogoUrl, writeBranding} from '../../src/mail/branding.ts';

const none = {name: null, logo_url: null, accent: null, support_email: null};

test('a logo must be an https URL with a full domain name', t => {
	t.is(validLogoUrl('https://Shop.example:8443/a b.png'), 'https://shop.example:8443/a%20b.png');
	for (const text of [
		...['', 'logo.png', 'http://shop.example/x', 'https://localhost/x', 'https://192.0.2.1/x', 'https://[::1]/x'],
		...[
			'https://u:p@shop.example/',
			'data:image/png,x',
			'javascript:alert(1)',
			'https://a;b.example/',
			"https://'a.example/",
		],
		`https://shop.example/${'x'.repeat(1000)}`,
	]) {
		t.is(validLogoUrl(text), null, text);
	}
});

test('the origin of any logo is safe in a Content-Security-Policy', t => {
	fc.assert(
		fc.property(
			fc.oneof(
				fc.webUrl(),
				fc.string().map(text => `https://${text}`),
			),
			text => {
				const url = validLogoUrl(text);
				t.true(url === null || /^https:\/\/[a-z0-9.-]+(?::\d+)?$/.test(new URL(url).origin));
			},
		),
	);
});

test('an accent color must have the form #rrggbb', t => {
	t.is(validAccent('#0A7d4F'), '#0a7d4f');
	for (const text of ['', '0a7d4f', '#fff', '#0a7d4g', '#0a7d4f;', 'red']) {
		t.is(validAccent(text), null, text);
	}
});

test('reads what was stored, but drops values that are no longer valid', t => {
	const all = {
		name: 'The Shop',
		logo_url: 'https://shop.example/l.png',
		accent: '#0a7d4f',
		support_email: 'hi@shop.example',
	};
	t.deepEqual(readBranding(writeBranding(all)), all);
	t.is(writeBranding(none), null);
	t.deepEqual(readBranding(null), none);
	t.deepEqual(readBranding('{"logo_url":"https://a;b.example/","accent":"red}","support_email":"<x>"}'), none);
});
