import test from 'ava';
import {relayAdvice} from '../../src/mail/relay-advice.ts';

const replies: ReadonlyArray<readonly [reason: string, advice: RegExp]> = [
	['535 5.7.8 authentication failed', /^check user and password .*MAILCTL_RELAY_URL.*percent-encoded$/],
	['535 Authentication Credentials Invalid', /^check user and password/],
	['535 5.7.0 Invalid login or password', /^check user and password/],
	['534 5.7.14 Please log in with your web browser and then try again', /^create an app password/],
	['534 5.7.9 Application-specific password required', /^create an app password/],
	[
		'535 5.7.8 Username and Password not accepted. For more information, go to https://support.google.com/mail/?p=BadCredentials d9443c01a7336.4 - gsmtp',
		/^check user and password .*; see https:\/\/support\.google\.com\/mail\/\?p=BadCredentials$/,
	],
	[
		'535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant. Visit https://aka.ms/smtp_auth_disabled for more information.',
		/^the provider does not allow this account to log in by SMTP.*; see https:\/\/aka\.ms\/smtp_auth_disabled$/,
	],
	['530 5.7.0 Must issue a STARTTLS command first', /^use tls=required or smtps/],
	['538 5.7.11 Encryption required for requested authentication mechanism', /^use tls=required or smtps/],
	['530 5.7.57 Client not authenticated to send mail', /^add user and password/],
	['530 5.7.0 Authentication required', /^add user and password/],
	['550 5.7.0 auth required', /^add user and password/],
	['550 5.7.0 Please log in first', /^add user and password/],
	['454 4.7.0 Temporary authentication failure', /cannot check logins at the moment/],
	['421 4.7.0 Too many failed logins, try again later', /^check user and password .*refuses all logins for a while$/],
	['451 Authentication failed: Maximum credits exceeded', /^sign in at the provider/],
	['454 4.7.0 AccountSuspended: Your account is suspended (HTTP 403)', /^sign in at the provider/],
	['535 5.7.8 Forbidden (HTTP 403)', /^check the key/],
	['535 5.7.8 Domain not found: mg.shop.example (HTTP 404)', /^correct host, domain or region/],
	['525 5.7.1 Unauthorized IP address', /refuses the address of this machine: ask its provider/],
	['554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org', /mailctl doctor checks the blocklists/],
	['554 5.7.1 <unknown[192.0.2.1]>: Client host rejected: Access denied', /refuses the address of this machine/],
	['554 5.7.1 who are you', /before it logs in: ask its provider, and send them this reply$/],
	['the smarthost relay.example was not found: ENOTFOUND', /^correct the host .*check DNS/],
	['the password is not sent over an unencrypted connection', /^use smtps:\/\//],
	['the server offers no way to log in that we know (CRAM-MD5)', /^use the port for submission/],
	['the server offers no way to log in that we know (none)', /remove user and password/],
	['the server does not offer TLS', /^use a port that offers TLS/],
	['no authority that we trust vouches for relay.example: self-signed certificate', /MAILCTL_CA_FILE/],
	['', /^check host, port, user and password in /],
];
for (const [reason, advice] of replies) {
	test(`advice for "${reason}"`, t => {
		t.regex(relayAdvice(reason), advice);
	});
}
