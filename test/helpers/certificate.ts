import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';

export type Certificate = {readonly key: string; readonly cert: string};

/** Makes a self-signed certificate for host names and addresses; it is its own authority. */
export function makeCertificate(...names: string[]): Certificate {
	return selfSigned(['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'], names);
}

/** The same with an RSA key, for servers that can use no other. */
export function makeRsaCertificate(...names: string[]): Certificate {
	return selfSigned(['rsa:2048'], names);
}

function selfSigned(newKey: readonly string[], names: readonly string[]): Certificate {
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-cert-'));
	const key = path.join(folder, 'key.pem');
	const cert = path.join(folder, 'cert.pem');
	const alternatives = names.map(name => (/^[\d.]+$|:/.test(name) ? `IP:${name}` : `DNS:${name}`)).join(',');
	try {
		execFileSync(
			'openssl',
			[
				...['req', '-x509', '-newkey', ...newKey, '-nodes', '-days', '2'],
				...['-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${alternatives}`, '-keyout', key, '-out', cert],
			],
			{stdio: 'pipe'},
		);
		return {key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8')};
	} finally {
		rmSync(folder, {recursive: true});
	}
}
