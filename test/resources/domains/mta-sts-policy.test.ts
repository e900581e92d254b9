import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test from 'ava';
import {readOwnPolicy} from '../../../src/resources/domains/mta-sts-policy.ts';
import {issueCertificate, makeCertificate} from '../../helpers/certificate.ts';

const host = 'mail.example';
const [root, other] = [makeCertificate('Lab root'), makeCertificate('Other root')];
const authority = issueCertificate(root, ['Lab CA'], {isAuthority: true});
const ofPublic = issueCertificate(authority, [host]);
const [leafAlone = ''] = ofPublic.cert.split(/(?<=END CERTIFICATE-----\n)/);

for (const [what, chain, roots, mode] of [
	['of a publicly trusted CA', ofPublic.cert, [other.cert, root.cert], 'enforce'],
	['issued directly by a root', issueCertificate(root, [host]).cert, [root.cert], 'enforce'],
	['of a CA that is not publicly trusted', ofPublic.cert, [other.cert], 'testing'],
	['of a test CA, checked against the roots of Node.js', ofPublic.cert, undefined, 'testing'],
	['that is self-signed', makeCertificate(host).cert, [root.cert], 'testing'],
	['without its intermediate', leafAlone, [root.cert], 'testing'],
	['for another host', issueCertificate(authority, ['b.example']).cert, [root.cert], 'testing'],
	['that has expired', issueCertificate(authority, [host], {days: -1}).cert, [root.cert], 'testing'],
	['issued by a certificate that is not a CA', issueCertificate(ofPublic, [host]).cert, [root.cert], 'testing'],
	['that cannot be read', 'no PEM', [root.cert], 'testing'],
] as const) {
	test(`publishes mode ${mode} with a certificate ${what}`, async t => {
		const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-policy-'));
		t.teardown(() => rmSync(folder, {recursive: true}));
		const inboundTlsCert = path.join(folder, 'chain.pem');
		writeFileSync(inboundTlsCert, chain);
		const settings = {hostname: host, inboundListen: {}, inboundTlsCert, acme: false};
		const policy = await readOwnPolicy(settings, null as never, Date.now(), roots);
		t.regex(policy?.text ?? '', new RegExp(`\r\nmode: ${mode}\r\nmx: mail\\.example\r\n`));
	});
}
