import {deflateRawSync, gzipSync} from 'node:zlib';
import {dkimSign} from 'mailauth/lib/dkim/sign.js';
import {dkimRecordValue, generateSigningKeys} from '../../src/compose/dkim.ts';

/** A zip of these files, as zip programs write it. */
export function zipOf(
	files: ReadonlyArray<{readonly name: string; readonly bytes: Buffer}>,
	method: 0 | 8 = 8,
): Buffer {
	const locals: Buffer[] = [];
	const directory: Buffer[] = [];
	let at = 0;
	for (const {name, bytes} of files) {
		const packed = method === 8 ? deflateRawSync(bytes) : bytes;
		const common = Buffer.alloc(26);
		common.writeUInt16LE(20, 0);
		common.writeUInt16LE(method, 4);
		// The end of a gzip has the same checksum.
		common.writeUInt32LE(gzipSync(bytes).subarray(-8).readUInt32LE(0), 10);
		common.writeUInt32LE(packed.length, 14);
		common.writeUInt32LE(bytes.length, 18);
		common.writeUInt16LE(Buffer.byteLength(name), 22);
		const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed]);
		const place = Buffer.alloc(14);
		place.writeUInt32LE(at, 10);
		directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x00', 'latin1'), common, place, Buffer.from(name)]));
		locals.push(local);
		at += local.length;
	}
	const central = Buffer.concat(directory);
	const end = Buffer.alloc(22);
	end.write('PK\x05\x06', 'latin1');
	end.writeUInt16LE(files.length, 8);
	end.writeUInt16LE(files.length, 10);
	end.writeUInt32LE(central.length, 12);
	end.writeUInt32LE(at, 16);
	return Buffer.concat([...locals, central, end]);
}

/** How a reporter writes its reports: what is publicly known of its form. */
export type Reporter = {
	readonly org: string;
	readonly from: string;
	readonly type: string;
	readonly packing: 'zip' | 'gzip' | 'none';
	readonly ext: string;
	/** The report is the mail's body, not an attachment. */
	readonly isBody?: true;
	readonly encoding?: '7bit';
	readonly xml: (facts: Facts) => string;
};

/** What all of them report. */
export type Facts = {
	readonly org: string;
	readonly email: string;
	readonly id: string;
	readonly domain: string;
	/** Seconds. */
	readonly begin: number;
	readonly end: number;
	readonly records: readonly RecordFacts[];
};

export type RecordFacts = {
	readonly ip: string;
	readonly n: number | string;
	readonly dkim: 'pass' | 'fail';
	readonly spf: 'pass' | 'fail';
	readonly disposition?: string;
	/** Raw domains and results. */
	readonly signer?: string;
	readonly signed?: string;
	readonly mailFrom?: string;
	readonly passed?: string;
	readonly override?: string;
};

const metadata = ({org, email, id, begin, end}: Facts, more = '') =>
	`<report_metadata><org_name>${org}</org_name><email>${email}</email>${more}<report_id>${id}</report_id><date_range><begin>${begin}</begin><end>${end}</end></date_range></report_metadata>`;
const policy = ({domain}: Facts, more = '<sp>none</sp><pct>100</pct>') =>
	`<policy_published><domain>${domain}</domain><adkim>r</adkim><aspf>r</aspf><p>none</p>${more}</policy_published>`;

type RecordForm = {
	readonly identifiers?: (facts: Facts) => string;
	readonly selector?: boolean;
	readonly scope?: boolean;
	/** A second DKIM result, before the one that counts. */
	readonly second?: boolean;
	readonly results?: false;
};

const records = (facts: Facts, {identifiers, selector, scope, second, results}: RecordForm = {}) =>
	facts.records
		.map(
			({
				ip,
				n,
				dkim,
				spf,
				disposition = 'none',
				signer = '',
				signed = 'none',
				mailFrom = '',
				passed = 'none',
				override,
			}) =>
				`<record><row><source_ip>${ip}</source_ip><count>${n}</count><policy_evaluated><disposition>${disposition}</disposition><dkim>${dkim}</dkim><spf>${spf}</spf>${
					override ? `<reason><type>${override}</type><comment>arc=pass</comment></reason>` : ''
				}</policy_evaluated></row>${identifiers?.(facts) ?? `<identifiers><header_from>${facts.domain}</header_from></identifiers>`}${
					results === false
						? ''
						: `<auth_results>${second ? '<dkim><domain>list.example</domain><result>neutral</result></dkim>' : ''}${
								signer
									? `<dkim><domain>${signer}</domain>${selector ? '<selector>s1</selector>' : ''}<result>${signed}</result></dkim>`
									: ''
							}<spf><domain>${mailFrom}</domain>${scope ? '<scope>mfrom</scope>' : ''}<result>${passed}</result></spf></auth_results>`
				}</record>`,
		)
		.join('\n');

const plain = (facts: Facts, form?: RecordForm) =>
	`<?xml version="1.0" encoding="UTF-8" ?>\n<feedback>\n${metadata(facts)}\n${policy(facts)}\n${records(facts, form)}\n</feedback>\n`;
const versioned = (facts: Facts, form?: RecordForm) =>
	plain(facts, form).replace('<feedback>', '<feedback>\n  <version>1.0</version>');
const indented = (xml: string) => xml.replaceAll('><', '>\r\n\t<').replaceAll(/(>)\r\n\t(<\/)/g, '$1$2');
const envelope = ({domain}: Facts) =>
	`<identifiers><envelope_to>rcpt.example</envelope_to><envelope_from>bounce.${domain}</envelope_from><header_from>${domain}</header_from></identifiers>`;

/** Twenty reporters, written anew in the forms in which they are known to report. */
export const reporters: readonly Reporter[] = [
	{
		org: 'google.com',
		from: 'noreply-dmarc-support@google.com',
		type: 'application/zip',
		packing: 'zip',
		ext: 'zip',
		xml: facts =>
			plain(facts, {selector: true}).replace(
				'<report_id>',
				'<extra_contact_info>https://support.google.com/a/answer/2466580</extra_contact_info><report_id>',
			),
	},
	{
		org: 'Yahoo',
		from: 'noreply@dmarc.yahoosmtp.com',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts =>
			plain(facts, {selector: true}).replace('<?xml version="1.0" encoding="UTF-8" ?>', '<?xml version="1.0"?>'),
	},
	{
		org: 'Outlook.com',
		from: 'dmarcreport@microsoft.com',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts =>
			versioned(facts, {identifiers: envelope, selector: true, scope: true})
				.replace('<?xml version="1.0" encoding="UTF-8" ?>', '<?xml version="1.0"?>')
				.replace(
					'<feedback>',
					'<feedback xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">',
				),
	},
	{
		org: 'Enterprise Outlook',
		from: 'dmarcreport@microsoft.com',
		type: 'application/octet-stream',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => versioned(facts, {identifiers: envelope, selector: true, scope: true}),
	},
	{
		org: 'Mail.Ru',
		from: 'dmarc_support@corp.mail.ru',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => plain(facts, {identifiers: envelope}).replace('UTF-8', 'utf-8'),
	},
	{
		org: 'Fastmail Pty Ltd',
		from: 'reports@fastmaildmarc.com',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => indented(versioned(facts, {selector: true, scope: true, second: true})),
	},
	{
		org: 'comcast.net',
		from: 'dmarc_noreply@alerts.comcast.net',
		type: 'application/x-gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => versioned(facts, {scope: true}),
	},
	{
		org: 'GMX',
		from: 'noreply-dmarc@sicher.gmx.example',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => plain(facts, {selector: true, scope: true}).replace(' ?>', ' standalone="yes"?>'),
	},
	{
		org: 'WEB.DE',
		from: 'noreply-dmarc@sicher.web.example',
		type: 'application/zip',
		packing: 'zip',
		ext: 'zip',
		xml: facts => plain(facts, {selector: true, scope: true}),
	},
	{
		org: 'Mimecast.org',
		from: 'no-reply@us-1.mimecastreport.com',
		type: 'application/zip',
		packing: 'zip',
		ext: 'zip',
		xml: facts => versioned(facts, {identifiers: envelope}).replace('<pct>', '<fo>1</fo><pct>'),
	},
	{
		org: 'AMAZON-SES',
		from: 'postmaster@amazonses.com',
		type: 'application/octet-stream',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => plain(facts),
	},
	{
		org: 'seznam.cz a.s.',
		from: 'abuse@seznam.cz',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		isBody: true,
		xml: facts => versioned(facts, {selector: true}),
	},
	{
		org: 'zoho.com',
		from: 'noreply@zohomail.com',
		type: 'application/zip',
		packing: 'zip',
		ext: 'xml.zip',
		xml: facts => plain(facts, {selector: true}),
	},
	{
		org: '163.com',
		from: 'dmarc@service.netease.com',
		type: 'application/x-zip-compressed',
		packing: 'zip',
		ext: 'zip',
		xml: facts => indented(plain(facts)),
	},
	{
		org: 'emailsrvr.com',
		from: 'dmarc_reports@emailsrvr.com',
		type: 'text/xml',
		packing: 'none',
		ext: 'xml',
		xml: facts => plain(facts, {scope: true}),
	},
	{
		org: 'Cisco IronPort &amp; Co',
		from: 'dmarc@ironport.example',
		type: 'application/xml',
		packing: 'none',
		ext: 'xml',
		encoding: '7bit',
		xml: facts => plain(facts, {second: true}),
	},
	{
		org: 'University',
		from: 'postmaster@uni.example',
		type: 'text/plain',
		packing: 'none',
		ext: 'xml',
		xml: facts => plain(facts, {results: false}),
	},
	{
		org: 'OpenDMARC Filter',
		from: 'opendmarc@small.example',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts => plain(facts).replace('<sp>none</sp>', ''),
	},
	{
		org: 'rspamd',
		from: 'dmarc@rspamd.example',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		isBody: true,
		xml: facts => versioned(facts, {selector: true}).replace('<version>1.0', '<version>0.1'),
	},
	{
		org: 'New draft',
		from: 'reports@bis.example',
		type: 'application/gzip',
		packing: 'gzip',
		ext: 'xml.gz',
		xml: facts =>
			plain(facts, {selector: true, identifiers: envelope})
				.replace('<feedback>', '<feedback xmlns="urn:ietf:params:xml:ns:dmarc-2.0">')
				.replace(
					'<pct>100</pct>',
					'<np>none</np><testing>n</testing><discovery_method>treewalk</discovery_method>',
				)
				.replaceAll('<auth_results>', '<auth_results><!-- arc -->'),
	},
];

export const pack = (packing: Reporter['packing'], name: string, bytes: Buffer): Buffer =>
	packing === 'zip' ? zipOf([{name, bytes}]) : packing === 'gzip' ? gzipSync(bytes) : bytes;

type Attachment = {
	readonly from: string;
	readonly to: string;
	readonly subject: string;
	readonly type: string;
	readonly name: string;
	readonly bytes: Buffer;
	readonly isBody?: boolean;
	readonly encoding?: '7bit' | undefined;
};

/** A mail with an attachment, or with nothing else. */
export function mailWith({from, to, subject, type, name, bytes, isBody, encoding}: Attachment): Buffer {
	const content = [
		`Content-Type: ${type}; name="${name}"`,
		`Content-Disposition: attachment; filename="${name}"`,
		`Content-Transfer-Encoding: ${encoding ?? 'base64'}`,
	];
	const data = encoding === '7bit' ? bytes.toString() : bytes.toString('base64').replaceAll(/.{76}/g, '$&\n');
	const head = [
		`From: ${from}`,
		`To: ${to}`,
		`Subject: ${subject}`,
		'Date: Fri, 27 Nov 2026 02:00:00 +0000',
		`Message-ID: <${name}@reporter.example>`,
		'MIME-Version: 1.0',
	];
	const lines = isBody
		? [...head, ...content, '', data]
		: [
				...head,
				'Content-Type: multipart/mixed; boundary="=_b"',
				'',
				'--=_b',
				'Content-Type: text/plain',
				'',
				'This is an aggregate report.',
				'',
				'--=_b',
				...content,
				'',
				data,
				'--=_b--',
				'',
			];
	return Buffer.from(lines.join('\n').replaceAll(/\r?\n/g, '\r\n'));
}

/** What a reporter mails. */
export function dmarcMail(reporter: Reporter, facts: Facts, to = 'dmarc@bounce.shop.example'): Buffer {
	const {org, from, type, packing, ext, isBody, encoding, xml} = reporter;
	const host = from.slice(from.indexOf('@') + 1);
	const name = `${host}!${facts.domain}!${facts.begin}!${facts.end}`;
	const bytes = pack(packing, `${name}.xml`, Buffer.from(xml({...facts, org, email: from})));
	const subject = `Report Domain: ${facts.domain} Submitter: ${host} Report-ID: ${facts.id}`;
	return mailWith({from, to, subject, type, name: `${name}.${ext}`, bytes, isBody: isBody ?? false, encoding});
}

/** The domain with which a reporter signs. */
export const signingDomainOf = ({from}: Reporter): string => from.slice(from.indexOf('@') + 1);

/** Signs mails for domains, by a key that their zone has to show. */
export async function reportSigner(...domains: readonly string[]) {
	const {rsa} = await generateSigningKeys();
	const [first = 'google.com'] = domains;
	const value = dkimRecordValue(rsa);
	const txt = [value.match(/.{1,255}/g) ?? []];
	return {
		value,
		zone: Object.fromEntries([first, ...domains].map(domain => [`s1._domainkey.${domain}`, {txt}])),
		async sign(mail: Buffer, signingDomain = first): Promise<Buffer> {
			const key = {signingDomain, selector: 's1', privateKey: rsa};
			// Without a time the library asks the clock twice, and signs another second than it writes down.
			const {signatures} = await dkimSign(mail, {...key, signTime: new Date(), signatureData: [key]});
			return Buffer.concat([Buffer.from(signatures), mail]);
		},
	};
}

/** A TLS report about a return path host. */
export const tlsFacts = {
	'organization-name': 'Reporter Inc.',
	'date-range': {'start-datetime': '2026-11-26T00:00:00Z', 'end-datetime': '2026-11-26T23:59:59Z'},
	'contact-info': 'smtp-tls@reporter.example',
	'report-id': '2026-11-26T00:00:00Z_bounce.shop.example',
	policies: [
		{
			policy: {
				...{'policy-type': 'sts', 'policy-string': ['version: STSv1', 'mode: testing']},
				...{'policy-domain': 'bounce.shop.example', 'mx-host': ['mail.shop.example']},
			},
			summary: {'total-successful-session-count': 50, 'total-failure-session-count': 4},
			'failure-details': [
				{
					...{'result-type': 'certificate-expired', 'sending-mta-ip': '198.51.100.4'},
					...{'receiving-mx-hostname': 'mail.shop.example', 'failed-session-count': 4},
				},
			],
		},
	],
};
