const size = 10 * 1024 * 1024;

const multipart = (type: string) => `Subject: x\r\nContent-Type: ${type}; boundary=b\r\n\r\n`;
const part = (type: string, more = '') => `--b\r\nContent-Type: ${type}\r\n${more}\r\n`;
const report = (type: string) => multipart('multipart/report') + part(type);
const text = 'Subject: Undelivered Mail Returned to Sender\r\nContent-Type: text/plain\r\n\r\n';
const html = 'Subject: x\r\nContent-Type: text/html\r\n\r\n';
const recipient = 'Final-Recipient: rfc822;a@b.example\r\nAction: failed\r\nStatus: 5.1.1\r\n';

/** What mails of 10 MB are made of: a beginning, and what is repeated until they are full. */
const shapes: Readonly<Record<string, readonly [start: string, filling: string]>> = {
	'a million header fields': ['', 'X-A: b\r\n'],
	'one header field': ['Subject: ', 'a'],
	'one folded header field': ['Subject: a\r\n', ' b\r\n'],
	'a header of addresses': ['To: ', 'a@b.example, '],
	'a header of encoded words': ['Subject: ', '=?utf-8?q?=41?= '],
	'encoded words that never end': ['Subject: ', '=?a?q?'],
	'content types without end': ['Content-Type: multipart/mixed', '; boundary*1*="'],
	'a comment in a comment': ['Content-Type: text/plain ', '('],
	'CR alone': ['', 'X: a\r'],
	'nothing but CR': ['', '\r'],
	'nothing but LF': ['', '\n'],
	'nothing but NUL': ['', '\0'],
	'bytes of no charset': [text, '\xff\xfe\x80'],
	spaces: [text, ' '],
	'spaces and a letter': [text, `${' '.repeat(99_999)}x`],
	'blank lines of spaces': [text, '\n \t\n'],
	'one long line': [text, 'a'],
	'one long word with an @ in it': [text, 'aaaaaaa@'],
	addresses: [text, '<a@b.example>: 550 user unknown\r\n\r\n'],
	'reply codes': [text, '550-5.1.1 '],
	quotes: [text, '"'],
	signs: [text, '>'],
	colons: [text, 'response:::: \t'],
	transcripts: [text, '>>> RCPT TO:<a@b.example>\n<<< 550-5.1.1 x\n'],
	hosts: [text, 'host mx.example[192.0.2.1] said: '],
	'pasted fields': [text, 'Message-ID: <a@b>\n > '],
	'pasted fields, folded': [text, 'References: a\n'],
	'mails behind one another': [text, '\n\nFrom a@b Thu Jan  1 00:00:00 1970\n'],
	'From lines': ['', 'From a@b Thu Jan  1 00:00:00 1970\r\n\r\n'],
	tags: [html, '<'],
	'open tags': [html, '<a '],
	'styles that never end': [html, '<style>'],
	entities: [html, '&lt;'],
	'quoted-printable of signs': ['Content-Transfer-Encoding: quoted-printable\r\n\r\n', '='],
	'quoted-printable of spaces': ['Content-Transfer-Encoding: quoted-printable\r\n\r\n', '        '],
	'quoted-printable of ends': ['Content-Transfer-Encoding: quoted-printable\r\n\r\n', '= \t\n'],
	'base64 of nothing': ['Content-Transfer-Encoding: base64\r\n\r\n', '===='],
	'base64 of everything': ['Content-Transfer-Encoding: base64\r\n\r\n', '//79gICA\r\n'],
	'ISO-2022-JP of escapes': ['Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n', '\x1b$B\x1b(B'],
	GB18030: ['Content-Type: text/plain; charset=gb18030\r\n\r\n', '\x81\x30\x81\x30'],
	'empty parts': [multipart('multipart/mixed'), '--b\r\n\r\n'],
	'parts that are closed at once': [multipart('multipart/mixed'), '--b--\r\n'],
	'boundaries that begin alike': [multipart('multipart/mixed'), '--bb\r\n'],
	'boundaries in one line': [multipart('multipart/mixed'), '--b'],
	'boundaries that nobody announced': [
		'Content-Type: multipart/mixed\r\n\r\n',
		'--x\r\nContent-Type: text/plain\r\n\r\na\r\n',
	],
	'parts with large headers': [multipart('multipart/mixed'), `--b\r\n${'X-A: b\r\n'.repeat(6000)}\r\n\r\n`],
	'parts with large texts': [multipart('multipart/mixed'), `${part('text/plain')}${'a '.repeat(130_000)}\r\n`],
	'parts of HTML': [multipart('multipart/mixed'), `${part('text/html')}${'<p>a</p>'.repeat(30_000)}\r\n`],
	'returned mails': [
		multipart('multipart/mixed'),
		`${part('message/rfc822')}${'Message-ID: <a@b>\r\n'.repeat(2600)}\r\n`,
	],
	'parts in parts that are the same': [multipart('multipart/mixed'), part('multipart/mixed; boundary=b')],
	recipients: [report('message/delivery-status'), `${recipient}\r\n`],
	'recipients without blank lines': [report('message/delivery-status'), recipient],
	'a diagnostic': [`${report('message/delivery-status')}${recipient}Diagnostic-Code: smtp; `, '550 5.1.1 '],
	'a folded diagnostic': [`${report('message/delivery-status')}${recipient}Diagnostic-Code: smtp;`, '\r\n 550'],
	'a remote server in a remote server': [
		`${report('message/delivery-status')}${recipient}Diagnostic-Code: smtp; `,
		'Remote server returned -> 550 ',
	],
	'status fields of no status': [report('message/delivery-status'), 'Action: \r\n\r\n'],
	'a status in a text': [text, `${recipient}\r\n`],
	'a status and a text': [
		`${report('text/plain')}${'a@b.example host x said: \r\n\r\n'.repeat(9000)}${part('message/delivery-status')}`,
		`${recipient}\r\n`,
	],
	complaints: [report('message/feedback-report'), 'Feedback-Type: abuse\r\nOriginal-Rcpt-To: a@b.example\r\n'],
	'complaints of one': [
		`${report('message/feedback-report')}Feedback-Type: abuse\r\nOriginal-Rcpt-To: `,
		'<a@b.example>,',
	],
	'a notification': [
		`${text}{"notificationType":"Complaint","complaint":{"complainedRecipients":[`,
		'{"emailAddress":"a@b"},',
	],
	brackets: [`${text}{"notificationType":"Complaint","a":`, '['],
};

export type HostileMail = {readonly name: string; readonly build: () => Buffer};

/** Mails of 10 MB that try to be dear. */
export const hostileMails: readonly HostileMail[] = [
	...Object.entries(shapes).map(([name, [start, filling]]) => ({name, build: () => filled(start, filling)})),
	{name: 'a thousand parts in each other', build: nested},
	{name: 'noise', build: noise},
	{name: 'forty statuses of tiny blocks', build: manyStatuses},
];

function filled(start: string, filling: string): Buffer {
	const mail = Buffer.alloc(size, filling, 'latin1');
	mail.write(start, 'latin1');
	// The filling begins anew behind the start.
	mail.fill(Buffer.from(filling, 'latin1'), Buffer.byteLength(start, 'latin1'));
	return mail;
}

function nested(): Buffer {
	const depth = 1000;
	const layers = Array.from(
		{length: depth},
		(_, layer) => `Content-Type: multipart/mixed; boundary="b${layer}"\r\n\r\n--b${layer}\r\n`,
	);
	return Buffer.concat([Buffer.from(layers.join('')), Buffer.alloc(size - layers.join('').length, 'text \r\n')]);
}

function manyStatuses(): Buffer {
	const part = `\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n${'\nAB:b\n'.repeat(256 * 170)}`;
	return Buffer.from(`Content-Type: multipart/report; boundary=b\r\n\r\n${part.repeat(40)}`);
}

/** The same bytes each time. */
function noise(): Buffer {
	const mail = Buffer.alloc(size);
	let state = 1;
	for (let i = 0; i < size; i++) {
		state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
		mail[i] = state >> 16;
	}
	return mail;
}
