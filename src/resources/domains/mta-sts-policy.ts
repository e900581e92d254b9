import {createHash, X509Certificate} from 'node:crypto';
import {rootCertificates} from 'node:tls';
import type {Knex} from 'knex';
import {readSettingFile} from '../../kit/regular-file.ts';
import {findCertificate} from '../certificates/store.ts';

/** The MTA-STS policy for the hosts that receive this installation's own mail, such as bounces (RFC 8461 §3.2). */
export type OwnPolicy = {
	/** The file served at `https://mta-sts.<host>/.well-known/mta-sts.txt`. */
	readonly text: string;
	/** The id for the DNS record. It changes whenever the policy does. */
	readonly id: string;
};

const maxAgeSeconds = 7 * 86_400;
const idLength = 24;

/**
 * Returns the policy. Unless others can verify the certificate (`isProven`), it only requests reports of failures.
 */
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

/**
 * Returns the current policy, or `null` if nothing listens here or only without TLS. `now` is in milliseconds; `roots`
 * are the public certificate authorities, as PEM.
 */
export async function readOwnPolicy(
	settings: PolicySettings,
	reader: Knex,
	now: number,
	roots: readonly string[] = rootCertificates,
): Promise<OwnPolicy | null> {
	const {hostname, inboundListen, inboundTlsCert, acme} = settings;
	if (inboundListen === null || (inboundTlsCert === null && !acme) || !hostname.includes('.')) {
		return null;
	}
	const chain = inboundTlsCert === null ? (await findCertificate(reader, hostname))?.chain : readPem(inboundTlsCert);
	return ownPolicy(hostname, chain != null && isPubliclyTrusted(chain, hostname, now, roots));
}

const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const parsedRoots = new WeakMap<readonly string[], readonly X509Certificate[]>();

/** Whether the chain ends at a public root. With a private CA, `enforce` would prevent all mail from arriving. */
function isPubliclyTrusted(chain: string, host: string, now: number, roots: readonly string[]): boolean {
	const trusted = parsedRoots.get(roots) ?? roots.map(root => new X509Certificate(root));
	parsedRoots.set(roots, trusted);
	try {
		const certificates = (chain.match(pem) ?? []).map(text => new X509Certificate(text));
		let next = certificates[0]?.checkHost(host) === undefined ? undefined : certificates[0];
		for (let steps = 0; next !== undefined && steps < certificates.length; steps++) {
			const current: X509Certificate = next;
			const isIssuer = (other: X509Certificate) => current.checkIssued(other) && current.verify(other.publicKey);
			if (now < Date.parse(current.validFrom) || now >= Date.parse(current.validTo)) {
				return false;
			}
			if (trusted.some(isIssuer)) {
				return true;
			}
			next = certificates.find(other => other.ca && isIssuer(other));
		}
	} catch {
		// An unreadable certificate proves nothing.
	}
	return false;
}

/** Returns `null` if the file cannot be read now. The listener reports the problem. */
function readPem(file: string): string | null {
	try {
		return readSettingFile(file).toString();
	} catch {
		return null;
	}
}
