import {createPrivateKey, X509Certificate} from 'node:crypto';
import type {Clock} from '../mail/clock.ts';
import {readSettingFile} from '../mail/regular-file.ts';
import {type Check, fail, ok, warn} from './finding.ts';

const day = 86_400_000;
const soonDays = 14;

const why = 'Servers that demand TLS do not hand bounces to a listener that has none, or whose certificate is wrong.';

/** The listener has no certificate. */
export const noCertificateCheck: Check = {
	name: 'listener-tls',
	why,
	look: async () => [
		warn(
			'the listener offers no STARTTLS: reports come in unencrypted',
			'set MAILCTL_INBOUND_TLS_CERT and MAILCTL_INBOUND_TLS_KEY',
		),
	],
};

/** Whether the listener's certificate holds, for how long, and for which name. */
export function certificateCheck({
	certFile,
	keyFile,
	hostname,
	clock,
}: {
	readonly certFile: string;
	readonly keyFile: string;
	readonly hostname: string;
	readonly clock: Clock;
}): Check {
	return {
		name: 'listener-tls',
		why,
		async look() {
			let certificate: X509Certificate;
			try {
				certificate = new X509Certificate(readSettingFile(certFile));
				if (!certificate.checkPrivateKey(createPrivateKey(readSettingFile(keyFile)))) {
					return [fail(`the key of ${keyFile} is not that of ${certFile}`, 'set the two files that belong together')];
				}
			} catch (error) {
				return [fail((error as Error).message, 'correct MAILCTL_INBOUND_TLS_CERT and MAILCTL_INBOUND_TLS_KEY')];
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
