import {createHash, X509Certificate} from 'node:crypto';
import {rootCertificates} from 'node:tls';
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

/**
 * The policy as it is now; null: nothing listens here, or without TLS. `now`: milliseconds. `roots`: whom others trust,
 * PEM.
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
	return ownPolicy(hostname, chain != null && vouchesFor(chain, hostname, now, roots));
}

const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const parsedRoots = new WeakMap<readonly string[], readonly X509Certificate[]>();

/**
 * Whether the chain leads to a root that others have: with `enforce` no mail would come by a CA for tests or of a
 * company.
 */
function vouchesFor(chain: string, host: string, now: number, roots: readonly string[]): boolean {
	const trusted = parsedRoots.get(roots) ?? roots.map(root => new X509Certificate(root));
	parsedRoots.set(roots, trusted);
	try {
		const all = (chain.match(pem) ?? []).map(text => new X509Certificate(text));
		let one = all[0]?.checkHost(host) === undefined ? undefined : all[0];
		for (let steps = 0; one !== undefined && steps < all.length; steps++) {
			const below: X509Certificate = one;
			const isOf = (upper: X509Certificate) => below.checkIssued(upper) && below.verify(upper.publicKey);
			if (now < Date.parse(one.validFrom) || now >= Date.parse(one.validTo)) {
				return false;
			}
			if (trusted.some(isOf)) {
				return true;
			}
			one = all.find(upper => upper.ca && isOf(upper));
		}
	} catch {
		// What cannot be read proves nothing.
	}
	return false;
}

/** A file that cannot be read now proves nothing; the listener says what is wrong with it. */
function readPem(file: string): string | null {
	try {
		return readSettingFile(file).toString();
	} catch {
		return null;
	}
}
