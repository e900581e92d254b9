import test from 'ava';
import {providerOf} from '../../../src/outcome/infrastructure-alarm.ts';

for (const [host, provider] of [
	['gmail-smtp-in.l.google.com', 'google.com'],
	['Shop-Example.mail.protection.outlook.com.', 'outlook.com'],
	['mx00.gmx.net', 'gmx.net'],
	['mx.gmx.de', 'gmx.de'],
	['mx1.post.example.co.uk', 'example.co.uk'],
	['mx.example.ne.jp', 'example.ne.jp'],
	['mail', 'mail'],
	['192.0.2.7', '192.0.2.7'],
	['2001:db8::1', '2001:db8::1'],
] as const) {
	test(`${host} is ${provider}'s`, t => {
		t.is(providerOf(host), provider);
	});
}
