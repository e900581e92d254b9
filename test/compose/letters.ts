import type {RenderedMessage} from '../../src/compose/header-field.ts';

const rows = Array.from(
	{length: 12},
	(_, index) =>
		`  <tr>\n\t<td style="padding: 8px">Artikel ${index} – Grüße</td>  \n    <td align=right>${index},50 €</td>\r\n  </tr>\n`,
).join('');

/** An order receipt with everything a letter can have but attachments. */
export const receipt: RenderedMessage = {
	messageIdHeader: 'm081t6m3sfw5xv3qe7v1m8s4d9gzkr2pnh0c5bjyta9w6@shop.example',
	date: Date.UTC(2026, 5, 9, 10, 15, 30, 123),
	from: {address: 'orders@shop.example', name: 'Müller & Söhne'},
	to: 'ada@example.com',
	cc: ['grace@example.org', 'buchhaltung@exämple.test'],
	replyTo: 'help@shop.example',
	subject: 'Ihre Bestellung 4711 – vielen Dank, schöne Grüße und bis bald in unserem Geschäft 🎁',
	html: `<!doctype html>\n<html>\n<body>\n<p>Fine.\n.\n..\nFrom here on:</p>\n<table>\n${rows}</table>\n</body>\n</html>\n`,
	text: 'Vielen Dank!\n\nFrom here on:\n.\n..\n12,50 €  \n\t\nIhr Geschäft\n',
	attachments: [],
	extras: {},
	listUnsubscribe: {
		url: `https://mail.shop.example/unsubscribe?token=${'AQEzvVa0'.repeat(16)}`,
		mailto: 'u081t6m3sfw5xv3qe7v1m8s4d9gzkr2pnh0c5bjyta9w6@bounces.shop.example',
	},
	ref: 'r081t6m3sfw5xv3qe7v1m8s4d9gzkr2pnh0c5bjyta9w6',
	feedbackId: 'receipt:ws1:live:mailctl',
	cfblAddress: 'fbl@bounces.shop.example',
};

/** A letter with only the required fields. */
export const note: RenderedMessage = {
	...receipt,
	from: {address: 'orders@shop.example', name: null},
	cc: [],
	replyTo: null,
	subject: 'Your code is 4711',
	html: '<p>4711</p>',
	text: null,
	listUnsubscribe: {url: receipt.listUnsubscribe.url, mailto: null},
	feedbackId: null,
	cfblAddress: null,
};

export const invoice: RenderedMessage = {
	...receipt,
	attachments: [
		{
			filename: 'invoice 4711.pdf',
			contentType: 'application/pdf',
			content: Uint8Array.from({length: 700}, (_, index) => (index * 7) % 256),
		},
		{
			filename: 'Rechnung „März“ (endgültige Fassung, bitte aufbewahren) 🎁.txt',
			contentType: 'text/plain',
			content: Buffer.from('a\nb\r\nc\r\0é'),
		},
		{filename: 'empty.bin', contentType: 'application/octet-stream', content: new Uint8Array()},
	],
};

/** A recipient whose local part has no ASCII form. */
export const international: RenderedMessage = {...note, to: 'jörg@exämple.test'};

/** A reply in a thread, with its own names and header fields. */
export const answer: RenderedMessage = {
	...receipt,
	extras: {
		toName: 'Lovelace, Ada',
		replyToName: 'Hilfe & Größe',
		headers: [
			['In-Reply-To', '<2@shop.example>'],
			['References', Array.from({length: 12}, (_, n) => `<${n}.${'a'.repeat(40)}@shop.example>`).join(' ')],
			['Auto-Submitted', 'auto-replied; owner-email=x'],
			['Importance', 'high'],
			['X-Long', 'a'.repeat(998)],
			['X-Word', `https://shop.example/${'a'.repeat(200)} and more`],
			['X-Size', 'Größe =?UTF-8?Q?x?='.repeat(20)],
		],
	},
};

/** Images that the html refers to, one that it does not, and a file. */
export const pictured: RenderedMessage = {
	...receipt,
	html: '<p><img src="cid:logo@shop" alt="Logo"> <td background="cid:back%2Bground"></p>\n',
	attachments: [
		{filename: 'logo.png', contentType: 'image/png', content: Buffer.from('logo'), contentId: 'logo@shop'},
		{filename: 'Bild ü.png', contentType: 'image/png', content: Buffer.from('back'), contentId: 'back+ground'},
		{filename: 'unused.png', contentType: 'image/png', content: Buffer.from('unused'), contentId: 'unused'},
		{filename: 'a.pdf', contentType: 'application/pdf', content: Buffer.from('pdf'), contentId: null},
	],
};
