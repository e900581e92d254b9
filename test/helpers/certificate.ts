import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';

/** A key and its certificate, followed by those above it. */
export type Certificate = {readonly key: string; readonly cert: string};

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** Makes a self-signed certificate for host names and addresses; it is its own authority. */
export function makeCertificate(...names: string[]): Certificate {
	return inFolder((openssl, files) => {
		openssl('req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=${names[0]}`, ...named(names), ...files.out);
	});
}

/** Makes a self-signed certificate with an RSA key. */
export function makeRsaCertificate(name: string): Certificate {
	return inFolder((openssl, files) => {
		openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=${name}`, ...files.out);
	});
}

/** Makes a certificate that an authority vouches for; `days` from now, -1: it has expired. */
export function issueCertificate(
	authority: Certificate,
	names: readonly string[],
	{days = 2, isAuthority = false}: {readonly days?: number; readonly isAuthority?: boolean} = {},
): Certificate {
	const issued = inFolder((openssl, {folder, out}) => {
		const file = (name: string, text: string) => {
			writeFileSync(path.join(folder, name), text);
			return path.join(folder, name);
		};
		const request = path.join(folder, 'request.pem');
		openssl('req', ...newKey, '-subj', `/CN=${names[0]}`, '-keyout', out[1], '-out', request);
		const [ca, key] = [file('ca.pem', authority.cert), file('ca-key.pem', authority.key)];
		const extensions = file('extensions', isAuthority ? 'basicConstraints=critical,CA:TRUE' : alternatives(names));
		openssl(
			...['x509', '-req', '-in', request, '-CA', ca, '-CAkey', key, '-CAcreateserial'],
			...['-days', String(days), '-extfile', extensions, '-out', out[3]],
		);
	});
	return {key: issued.key, cert: issued.cert + authority.cert};
}

function alternatives(names: readonly string[]): string {
	const all = names.map(name => (/^[\d.]+$|:/.test(name) ? `IP:${name}` : `DNS:${name}`));
	return `subjectAltName=${all.join(',')}`;
}

function named(names: readonly string[]): string[] {
	return ['-addext', alternatives(names)];
}

type Files = {
	readonly folder: string;
	readonly out: readonly ['-keyout', string, '-out', string];
};

/** Has a key and a certificate made in a folder that is gone afterwards. */
function inFolder(make: (openssl: (...options: string[]) => void, files: Files) => void): Certificate {
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-cert-'));
	const key = path.join(folder, 'key.pem');
	const cert = path.join(folder, 'cert.pem');
	try {
		make((...options) => void execFileSync('openssl', options, {stdio: 'pipe'}), {
			folder,
			out: ['-keyout', key, '-out', cert],
		});
		return {key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8')};
	} finally {
		rmSync(folder, {recursive: true});
	}
}
