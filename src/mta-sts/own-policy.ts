import {createHash, X509Certificate} from 'node:crypto';
import type {Knex} from 'knex';
import {readSettingFile} from '../kit/regular-file.ts';
import {findCertificate} from '../store/certificates.ts';

/** The policy for the hosts that take our own mail, bounces and what else comes in (RFC 8461 §3.2). */
export type OwnPolicy = {
	/** The file at `https://mta-sts.<host>/.well-known/mta-sts.txt`. */
	readonly text: string;
	/** For the record that announces it: another policy has another id. */
	readonly id: string;
};

const maxAgeSeconds = 7 * 86_400;
const idLength = 24;

/** `isProven`: others can verify the certificate of the host. Else they only report what fails. */
export function ownPolicy(host: string, isProven: boolean): OwnPolicy {
	const mode = isProven ? 'enforce' : 'testing';
	const text = `version: STSv1\r\nmode: ${mode}\r\nmx: ${host}\r\nmax_age: ${maxAgeSeconds}\r\n`;
	return {text, id: createHash('sha256').update(text).digest('hex').slice(0, idLength)};
}

type PolicySettings = {
	readonly hostname: string;
	readonly inboundListen: object | null;
	readonly inboundTlsCert: string | null;
	readonly acme: boolean;
};

/** The policy as it is now; null: nothing listens here, or without TLS. `now`: milliseconds. */
export async function readOwnPolicy(settings: PolicySettings, reader: Knex, now: number): Promise<OwnPolicy | null> {
	const {hostname, inboundListen, inboundTlsCert, acme} = settings;
	if (inboundListen === null || (inboundTlsCert === null && !acme) || !hostname.includes('.')) {
		return null;
	}
	const chain = inboundTlsCert === null ? (await findCertificate(reader, hostname))?.chain : readPem(inboundTlsCert);
	return ownPolicy(hostname, chain != null && vouchesFor(chain, hostname, now));
}

/** Others trust no certificate that signs itself: with `enforce` no mail would come. */
function vouchesFor(chain: string, host: string, now: number): boolean {
	try {
		const certificate = new X509Certificate(chain);
		const {validFrom, validTo} = certificate;
		const isValid = Date.parse(validFrom) <= now && now < Date.parse(validTo);
		return isValid && certificate.checkHost(host) !== undefined && !certificate.checkIssued(certificate);
	} catch {
		return false;
	}
}

/** A file that cannot be read now proves nothing; the listener says what is wrong with it. */
function readPem(file: string): string | null {
	try {
		return readSettingFile(file).toString();
	} catch {
		return null;
	}
}
