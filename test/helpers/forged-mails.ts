import type {Clues, Report, ReportKind} from '../../src/mail/report.ts';

/** A mail of this kind that says these things, with its clues where mail systems put them. */
export function bytesOf(kind: MailKind, reports: readonly Report[], clues: Clues): Buffer {
	const returned = [
		...clues.returnPaths.map(address => `Return-Path: <${address}>`),
		...clues.refs.map(ref => `X-Mailctl-Ref: ${ref}`),
		...clues.messageIds.map(id => `Message-ID: <${id}>`),
		...clues.unsubscribeAddresses.map(address => `List-Unsubscribe: <mailto:${address}?subject=unsubscribe>`),
		'Subject: Hello',
	].join('\n');
	const top = [
		'From: MAILER-DAEMON@mx.test',
		...clues.addressees.map(address => `To: <${address}>`),
		...clues.addressees.map(address => `Delivered-To: ${address}`),
		...clues.messageIds.map(id => `In-Reply-To: <${id}>`),
		'MIME-Version: 1.0',
	];
	return Buffer.from(`${[...top, ...bodies[kind](reports, clues, returned)].join('\n')}\n`.replaceAll('\n', '\r\n'));
}

/** A provider's event is no mail, and an aggregate report is an attachment. */
export type MailKind = Exclude<ReportKind, 'provider' | 'dmarc' | 'tls'>;

type Body = (reports: readonly Report[], clues: Clues, returned: string) => string[];

const bodies: Readonly<Record<MailKind, Body>> = {
	dsn: (reports, {envelopeIds}, returned) =>
		multipart('delivery-status', [
			'\nIt could not be delivered.',
			[
				'Content-Type: message/delivery-status\n',
				'Reporting-MTA: dns; mx.test',
				...envelopeIds.map(id => `Original-Envelope-Id: ${id}`),
				...reports.map(statusOf),
			].join('\n'),
			`Content-Type: text/rfc822-headers\n\n${returned}`,
		]),
	arf: (reports, {returnPaths}, returned) =>
		multipart('feedback-report', [
			'\nA complaint.',
			[
				'Content-Type: message/feedback-report\n',
				`Feedback-Type: ${reports[0]?.feedbackType ?? 'abuse'}`,
				'User-Agent: test/1\nVersion: 1',
				...returnPaths.map(address => `Original-Mail-From: <${address}>`),
				...reports.map(({recipient}) => `Original-Rcpt-To: ${recipient}`),
			].join('\n'),
			`Content-Type: message/rfc822\n\n${returned}\n\nHello`,
		]),
	text: (reports, _, returned) => [
		'Subject: failure notice\n',
		'Hi. This is the qmail-send program at mx.test.',
		"I'm afraid I wasn't able to deliver your message to the following addresses.\n",
		...reports.map(({recipient, reason}) => `<${recipient}>:\n${reason}\n`),
		'--- Below this line is a copy of the message.\n',
		`${returned}\n\nHello`,
	],
	auto_reply: (_reports, _clues, returned) => [
		'Auto-Submitted: auto-replied\nSubject: Out of office\n',
		'I am away.',
		returned,
	],
	other: (_reports, _clues, returned) => ['Subject: unsubscribe\n', returned],
};

function statusOf({recipient, originalRecipient, action, status, code, reason}: Report): string {
	return [
		`\nFinal-Recipient: rfc822; ${recipient}`,
		...(originalRecipient === null ? [] : [`Original-Recipient: rfc822; ${originalRecipient}`]),
		`Action: ${action}\nStatus: ${status ?? '2.0.0'}`,
		...(code === null ? [] : [`Diagnostic-Code: smtp; ${reason}`]),
	].join('\n');
}

function multipart(type: string, parts: readonly string[]): string[] {
	return [
		`Content-Type: multipart/report; report-type=${type}; boundary="b"\n`,
		...parts.map(part => `--b\n${part}\n`),
		'--b--',
	];
}
