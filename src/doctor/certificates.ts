import {createPrivateKey, X509Certificate} from 'node:crypto';
import type {Clock} from '../kit/clock.ts';
import {readSettingFile} from '../kit/regular-file.ts';
import {type Check, fail, ok, warn} from './finding.ts';

const day = 86_400_000;
const soonDays = 14;

/** A listener with a certificate to check. */
type Listener = {readonly check: string; readonly why: string; readonly settings: string};

const inbound: Listener = {
	check: 'listener-tls',
	why: 'Servers that demand TLS do not hand bounces to a listener that has none, or whose certificate is wrong.',
	settings: 'MAILCTL_INBOUND_TLS_CERT and MAILCTL_INBOUND_TLS_KEY',
};
const submission: Listener = {
	check: 'submission-tls',
	why: 'Programs that verify TLS, as most do, submit no mail where the certificate is not for the name that they connect to.',
	settings: 'MAILCTL_SUBMISSION_TLS_CERT and MAILCTL_SUBMISSION_TLS_KEY',
};

/** The listener has no certificate. */
export const noCertificateCheck: Check = {
	name: inbound.check,
	why: inbound.why,
	look: async () => [warn('the listener offers no STARTTLS: reports come in unencrypted', `set ${inbound.settings}`)],
};

type Certificate = {
	readonly certFile: string;
	readonly keyFile: string;
	/** The name that clients connect to. */
	readonly hostname: string;
	readonly clock: Clock;
};

/** Whether the certificate of the listener for reports holds, for how long, and for which name. */
export function inboundCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(inbound, certificate);
}

/** The same of the listener for submission. */
export function submissionCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(submission, certificate);
}

function certificateCheck(listener: Listener, {certFile, keyFile, hostname, clock}: Certificate): Check {
	return {
		name: listener.check,
		why: listener.why,
		async look() {
			let certificate: X509Certificate;
			try {
				certificate = new X509Certificate(readSettingFile(certFile));
				if (!certificate.checkPrivateKey(createPrivateKey(readSettingFile(keyFile)))) {
					return [fail(`the key of ${keyFile} is not that of ${certFile}`, 'set the two files that belong together')];
				}
			} catch (error) {
				return [fail((error as Error).message, `correct ${listener.settings}`)];
			}
			const days = Math.floor((Date.parse(certificate.validTo) - clock.now()) / day);
			const detail = `${certFile} is valid until ${certificate.validTo}`;
			if (days < 0) {
				return [fail(`${certFile} expired on ${certificate.validTo}`, 'renew it and send the daemon SIGHUP')];
			}
			if (certificate.checkHost(hostname) === undefined) {
				return [warn(`${certFile} is not for ${hostname}`, `get a certificate for ${hostname}`)];
			}
			return [days < soonDays ? warn(detail, 'renew it') : ok(detail)];
		},
	};
}
