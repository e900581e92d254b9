import {generateKeyPairSync} from 'node:crypto';
import process from 'node:process';
import {createTransport} from 'nodemailer';
import {createCompose} from '../../src/compose/compose.ts';
import {importSigningKey} from '../../src/compose/dkim.ts';

// CPU a mail of our composer and of nodemailer's, for a mail of html and text: signed by one RSA key, and unsigned.

const rounds = 3;
const mails = 5000;
const date = Date.UTC(2026, 10, 26);
const pem = generateKeyPairSync('rsa', {modulusLength: 2048}).privateKey.export({
	type: 'pkcs8',
	format: 'pem',
}) as string;
const key = {domain: 'shop.example', selector: 'mc1'};
const signingKey = importSigningKey({...key, algorithm: 'rsa-sha256', privateKeyPem: pem});

const articles = Array.from({length: 110}, (_, index) => index);
const rows = articles
	.map(
		n =>
			`<tr><td style="padding:8px 12px;border-bottom:1px solid #ddd">Artikel ${n} – Größe M</td><td align="right">${n},90 €</td></tr>\n`,
	)
	.join('');
const lines = articles.map(n => `Artikel ${n} – Größe M: ${n},90 €\n`).join('');

function content(n: number) {
	return {
		to: `user${n}@example.com`,
		replyTo: 'help@shop.example',
		from: {address: 'orders@shop.example', name: 'Müller & Söhne'},
		subject: `Ihre Bestellung ${n} – vielen Dank für Ihren Einkauf`,
		html: `<html><body><h1>Guten Tag Kunde ${n}</h1><table>\n${rows}</table></body></html>\n`,
		text: `Guten Tag Kunde ${n}\n\n${lines}`,
	};
}

const compose = createCompose();
const stream = {streamTransport: true, buffer: true, newline: 'windows'} as const;
const unsigned = createTransport(stream);
const signed = createTransport({
	...stream,
	dkim: {domainName: key.domain, keySelector: key.selector, privateKey: pem},
});
const url = (n: number) => `https://m.shop.example/unsubscribe?token=${n}abcdefghijklmnopqrstuvwxyz`;
const ref = (n: number) => `r${n}abcdefghijklmnopqrstuvwxyz234567`;

function ours(n: number, keys: ReadonlyArray<typeof signingKey>): number {
	const letter = {
		...content(n),
		messageIdHeader: `m${n}@shop.example`,
		date,
		cc: [],
		attachments: [],
		extras: {},
		listUnsubscribe: {url: url(n), mailto: null},
		ref: ref(n),
		feedbackId: 'a:b:c:d',
		cfblAddress: null,
	};
	return compose(letter, keys, date).length;
}

async function theirs(n: number, transport: typeof unsigned): Promise<number> {
	const {message} = await transport.sendMail({
		...content(n),
		messageId: `<m${n}@shop.example>`,
		date: new Date(date),
		headers: {
			'List-Unsubscribe': `<${url(n)}>`,
			'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
			'Feedback-ID': 'a:b:c:d',
			'Auto-Submitted': 'auto-generated',
			'X-Mailctl-Ref': ref(n),
		},
	});
	return (message as Buffer).length;
}

const runs: Readonly<Record<string, (n: number) => number | Promise<number>>> = {
	'ours, signed': n => ours(n, [signingKey]),
	'nodemailer, signed': n => theirs(n, signed),
	'ours, unsigned': n => ours(n, []),
	'nodemailer, unsigned': n => theirs(n, unsigned),
};

for (let round = 1; round <= rounds; round++) {
	for (const [name, run] of Object.entries(runs)) {
		let octets = 0;
		const before = process.cpuUsage();
		for (let n = 0; n < mails; n++) {
			octets += await run(n);
		}
		const {user, system} = process.cpuUsage(before);
		console.log(
			`${round} ${name}: ${Math.round((user + system) / mails)} µs CPU a mail, ${Math.round(octets / mails)} octets`,
		);
	}
}
