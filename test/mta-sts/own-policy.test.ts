import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test from 'ava';
import {readOwnPolicy} from '../../src/mta-sts/own-policy.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';

const host = 'mail.example';
const [root, other] = [makeCertificate('Lab root'), makeCertificate('Other root')];
const authority = issueCertificate(root, ['Lab CA'], {isAuthority: true});
const ofPublic = issueCertificate(authority, [host]);
const [leafAlone = ''] = ofPublic.cert.split(/(?<=END CERTIFICATE-----\n)/);

for (const [what, chain, roots, mode] of [
	['of a CA that others trust', ofPublic.cert, [other.cert, root.cert], 'enforce'],
	['right below a root', issueCertificate(root, [host]).cert, [root.cert], 'enforce'],
	['of a CA that others do not trust', ofPublic.cert, [other.cert], 'testing'],
	['of a CA for tests, by the roots of Node', ofPublic.cert, undefined, 'testing'],
	['that signs itself', makeCertificate(host).cert, [root.cert], 'testing'],
	['without the one above', leafAlone, [root.cert], 'testing'],
	['of another host', issueCertificate(authority, ['b.example']).cert, [root.cert], 'testing'],
	['that has expired', issueCertificate(authority, [host], {days: -1}).cert, [root.cert], 'testing'],
	['below one that is no authority', issueCertificate(ofPublic, [host]).cert, [root.cert], 'testing'],
	['that cannot be read', 'no PEM', [root.cert], 'testing'],
] as const) {
	test(`a certificate ${what}: ${mode}`, async t => {
		const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-policy-'));
		t.teardown(() => rmSync(folder, {recursive: true}));
		const inboundTlsCert = path.join(folder, 'chain.pem');
		writeFileSync(inboundTlsCert, chain);
		const settings = {hostname: host, inboundListen: {}, inboundTlsCert, acme: false};
		const policy = await readOwnPolicy(settings, null as never, Date.now(), roots);
		t.regex(policy?.text ?? '', new RegExp(`\r\nmode: ${mode}\r\nmx: mail\\.example\r\n`));
	});
}
