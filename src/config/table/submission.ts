import {listensOrOff} from '../addresses.ts';
import {path} from '../parsers.ts';
import {optional, setting} from '../setting.ts';

/** Mail from programs that can only use SMTP. */
export const submission = {
	submissionListen: setting(
		'MAILCTL_SUBMISSION_LISTEN',
		'off',
		listensOrOff,
		'Where programs submit mail by SMTP, such as `127.0.0.1:2525` (no TLS needed on loopback) or `0.0.0.0:587,0.0.0.0:465`; port 465 speaks TLS from the first octet, all others STARTTLS. The role `api` serves it (docs/guide/submission.md).',
	),
	submissionTlsCert: optional(
		'MAILCTL_SUBMISSION_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of MAILCTL_SUBMISSION_LISTEN; only loopback goes without. SIGHUP reads it again.',
	),
	submissionTlsKey: optional(
		'MAILCTL_SUBMISSION_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_SUBMISSION_TLS_CERT.',
	),
};
