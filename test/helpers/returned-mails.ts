import {insertDeliveredIn, linksOf} from './sent-recipients.ts';

/** A mail as it comes back to us: its envelope, and its bytes with the line ends of the wire. */
export type ReturnedMail = {readonly from: string; readonly to: string; readonly bytes: string};

type Tokens = {
	readonly address: string;
	readonly returnPath: string;
	readonly unsubscribe: string;
	readonly ref: string;
};

/**
 * Puts delivered copies into the store of a data folder, as if they had been sent, and answers what comes back of them.
 */
export async function insertReturned(dataDir: string, count: number, domain: string): Promise<ReturnedMail[]> {
	const addresses = Array.from({length: count}, (_, n) => `user${n}@nowhere.example`);
	const links = linksOf(dataDir);
	const recipients = await insertDeliveredIn(dataDir, addresses, domain);
	return recipients.map(({recipientId, address, returnPath}, n) => {
		const unsubscribe = `${links.unsubscribeLocal(recipientId, address)}@${domain}`;
		const tokens = {address, returnPath, unsubscribe, ref: links.ref(recipientId, address)};
		const {from, to, lines} = (kinds[n % kinds.length] as Kind)(tokens, domain);
		return {from, to, bytes: `${lines.join('\r\n')}\r\n`};
	});
}

type Kind = (tokens: Tokens, domain: string) => {from: string; to: string; lines: readonly string[]};

const header = (to: string, subject: string) => [
	'From: Mail Delivery System <MAILER-DAEMON@mx.nowhere.example>',
	`To: ${to}`,
	`Subject: ${subject}`,
	'MIME-Version: 1.0',
];

function dsn(status: string, diagnostic: string, action = 'failed', more: readonly string[] = []): Kind {
	return ({returnPath, address, ref}) => ({
		from: '',
		to: returnPath,
		lines: [
			...header(returnPath, 'Undelivered Mail Returned to Sender'),
			'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
			'',
			'--b',
			'',
			`Your mail to <${address}>:`,
			...more,
			'--b',
			'Content-Type: message/delivery-status',
			'',
			'Reporting-MTA: dns; mx.nowhere.example',
			'',
			`Final-Recipient: rfc822; ${address}`,
			`Action: ${action}`,
			`Status: ${status}`,
			`Diagnostic-Code: smtp; ${diagnostic}`,
			'',
			'--b',
			'Content-Type: text/rfc822-headers',
			'',
			`X-Mailctl-Ref: ${ref}`,
			`To: ${address}`,
			'',
			'--b--',
		],
	});
}

const complaint: Kind = ({address, ref}, domain) => ({
	from: 'staff@provider.example',
	to: `fbl@${domain}`,
	lines: [
		...header(`fbl@${domain}`, 'complaint'),
		'Content-Type: multipart/report; report-type=feedback-report; boundary="b"',
		'',
		'--b',
		'',
		'A user does not want this mail.',
		'--b',
		'Content-Type: message/feedback-report',
		'',
		'Feedback-Type: abuse',
		'User-Agent: Provider/1.0',
		'Version: 1',
		'',
		'--b',
		'Content-Type: message/rfc822',
		'',
		`X-Mailctl-Ref: ${ref}`,
		`To: ${address}`,
		'Subject: hello',
		'',
		'hello',
		'--b--',
	],
});

const vacation: Kind = ({returnPath, address}) => ({
	from: '',
	to: returnPath,
	lines: [
		`From: ${address}`,
		`To: ${returnPath}`,
		'Subject: Out of office',
		'Auto-Submitted: auto-replied',
		'',
		'I am away until Monday.',
	],
});

const optOut: Kind = ({unsubscribe, address}) => ({
	from: address,
	to: unsubscribe,
	lines: [`From: ${address}`, `To: ${unsubscribe}`, 'Subject: unsubscribe', '', ''],
});

/** Nothing in it says whose mail it is about. */
const stranger: Kind = ({address}, domain) => ({
	from: '',
	to: `fbl@${domain}`,
	lines: [...header(`fbl@${domain}`, 'failure notice'), '', `<${address}>:`, '550 5.1.1 No such user'],
});

const trapFor = (mbox: string) => ['', 'From now on this is refused.', `From x@y.example ${mbox}`, '>From z', ''];

const kinds: readonly Kind[] = [
	dsn('5.1.1', '550 5.1.1 User unknown'),
	dsn('5.2.2', '552 5.2.2 Mailbox full'),
	dsn('4.4.1', '421 4.4.1 No answer', 'delayed'),
	complaint,
	vacation,
	dsn('5.7.1', '550 5.7.1 Message refused as spam'),
	optOut,
	dsn('5.1.1', '550 5.1.1 No such user', 'failed', trapFor('Fri Nov 20 10:00:00 2026')),
	stranger,
	dsn('5.4.4', '550 5.4.4 Host not found'),
];
