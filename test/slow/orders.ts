import {randomBytes} from 'node:crypto';
import {domainToASCII} from 'node:url';
import type {Shop} from '../helpers/shop.ts';

export type Order = {
	readonly number: string;
	readonly to: string;
	readonly cc: readonly string[];
	/** The mailboxes that receive the message, as spelled in the envelope. */
	readonly recipients: readonly string[];
	readonly subject: string;
	/** The text part, where the template has one. */
	readonly text: string | null;
	readonly attachments: ReadonlyArray<{filename: string; contentType: string; content: Buffer}>;
	/** The body of `POST /v1/messages`. */
	readonly send: Readonly<Record<string, unknown>>;
};

export const domains = ['mail.example', 'post.example', 'one.two.three.example', 'bücher.example'];

const names = ['Ann', 'Zoë', "O'Neil & <Söhne>", '田中 太郎'];
// One byte, one base64 line and its neighbours, and some that fill many SMTP chunks.
const sizes = [1, 56, 57, 58, 1000, 20_000, 200_000];
const files = [
	{filename: 'receipt.pdf', contentType: 'application/pdf'},
	{filename: 'Größe & Maß.png', contentType: 'image/png'},
	{filename: `a "quoted" name; x=${'y'.repeat(180)}.txt`, contentType: 'text/plain'},
];

function pick<T>(list: readonly T[], n: number): T {
	return list[n % list.length] as T;
}

/** Orders of three templates in two locales, every fifth with cc, every fourth with one to three attachments. */
export function makeOrders(shop: Shop, count: number, to: readonly string[] = domains): Order[] {
	return Array.from({length: count}, (_, n) => makeOrder(shop, n, to));
}

function makeOrder(shop: Shop, n: number, domains: readonly string[]): Order {
	const template = pick(['receipt', 'welcome', 'alert'] as const, n);
	const locale = pick(['en', 'de'] as const, n);
	const number = `R-${n}`;
	const name = pick(names, n >> 1);
	const total = 1000 + n / 100;
	const to = `user${n}@${pick(domains, n)}`;
	const cc = n % 5 === 0 ? [`copy${n}@${pick(domains, n + 1)}`, `second.copy+${n}@${pick(domains, n)}`] : [];
	const attachments = files
		.slice(0, n % 4 === 0 ? 1 + (n % 3) : 0)
		.map((file, index) => ({...file, content: randomBytes(pick(sizes, n + index))}));
	return {
		number,
		to,
		cc,
		recipients: [to, ...cc].map(envelopeAddress),
		subject: subjects[template][locale]({number, name, total}),
		text: template === 'alert' && locale === 'en' ? alertText(number, name) : null,
		attachments,
		send: {
			from: shop.from,
			to,
			cc,
			templateId: shop.templates.get(template),
			locale,
			timezone: 'Europe/Berlin',
			metadata: {order: number},
			data: {
				customer: {name},
				order: {number, total, placed_at: '2026-06-09T10:15:30Z', items: [{name: 'Café', price: total}]},
			},
			attachments: attachments.map(file => ({...file, content: file.content.toString('base64')})),
		},
	};
}

type SubjectValues = {readonly number: string; readonly name: string; readonly total: number};

const euro = (locale: string, total: number) =>
	new Intl.NumberFormat(locale, {style: 'currency', currency: 'EUR'}).format(total);

/** The expected output of the templates in `test/fixtures/flow/templates`. */
const subjects = {
	receipt: {
		en: ({number}: SubjectValues) => `Your receipt ${number}`,
		de: ({number, total}: SubjectValues) => `Ihr Beleg ${number} über ${euro('de', total)}`,
	},
	welcome: {
		en: ({name}: SubjectValues) => `Welcome, ${name} 🎉`,
		de: ({name}: SubjectValues) => `Schön, dass Sie da sind, ${name}`,
	},
	alert: {
		en: ({number}: SubjectValues) => `Alert ${number}`,
		de: ({number}: SubjectValues) => `Warnung ${number}`,
	},
};

/** Compares every space: a relaxed signature (RFC 6376 §3.4.4) would not detect lost ones. */
function alertText(number: string, name: string): string {
	return `.\n..\nAlert ${number} for ${name}\nFrom the text part, Jun 9, 2026\n\nblanks at the end   \n.\n`;
}

/** The spelling sent to a server without SMTPUTF8: the domain as A-labels. */
function envelopeAddress(address: string): string {
	const at = address.lastIndexOf('@');
	return `${address.slice(0, at)}@${domainToASCII(address.slice(at + 1))}`;
}
