import test from 'ava';
import {parseSpf, smarthostSpf} from '../../../src/resources/domains/spf.ts';

const machine = 'mail.shop.example';
const known = {
	'email-smtp.eu-central-1.amazonaws.com': 'include:amazonses.com',
	'smtp.mailgun.org': 'include:mailgun.org',
	'smtp.eu.mailgun.org': 'include:mailgun.org',
	'smtp.postmarkapp.com': 'include:spf.mtasv.net',
	'smtp.sendgrid.net': 'include:sendgrid.net',
	'smtp-relay.brevo.com': 'include:spf.brevo.com',
	'in-v3.mailjet.com': 'include:spf.mailjet.com',
	'smtp-relay.gmail.com': 'include:_spf.google.com',
	'smtp.office365.com': 'include:spf.protection.outlook.com',
	'shop-example.mail.protection.outlook.com': 'include:spf.protection.outlook.com',
	'192.0.2.7': 'ip4:192.0.2.7',
	'2001:db8::7': 'ip6:2001:db8::7',
	'127.0.0.1': 'a:mail.shop.example',
	'::1': 'a:mail.shop.example',
	localhost: 'a:mail.shop.example',
	'smtp.provider.example': 'include:ask-your-provider.invalid',
	'evilgmail.com': 'include:ask-your-provider.invalid',
	'smtp.gmail.com.example': 'include:ask-your-provider.invalid',
};

for (const [host, term] of Object.entries(known)) {
	test(`proposes the SPF record for the relay ${host}`, t => {
		const {value} = smarthostSpf([host], machine);
		t.is(value, `v=spf1 ${term} ~all`);
		t.true(parseSpf(value).ok);
	});
}

test('several relays share a record; notes name unknown ones and those with their own return path', t => {
	t.is(
		smarthostSpf(['SMTP.GMAIL.COM', 'smtp-relay.gmail.com', '192.0.2.7'], machine).value,
		'v=spf1 include:_spf.google.com ip4:192.0.2.7 ~all',
	);
	t.is(smarthostSpf(['smtp.gmail.com'], machine).note, null);
	const {note} = smarthostSpf(['a.example', 'smtp.postmarkapp.com'], machine);
	t.regex(note ?? '', /ask the provider of a\.example .*; Postmark uses its own return path/);
});
