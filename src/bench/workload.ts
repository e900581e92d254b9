import type {VariantSource} from '../render/compile.ts';

/** What is sent. */
export type Workload = {
	readonly template: VariantSource;
	/** The recipient and variables of a send; `{n}` becomes the number of the message, `{d}` that of its domain. */
	readonly to: string;
	readonly data: Readonly<Record<string, unknown>>;
	readonly domains: number;
	readonly perRequest: number;
};

const style = 'padding:8px;font-family:Helvetica,Arial,sans-serif;font-size:14px;line-height:20px;color:#333333';
const row = `<tr><td style="${style};border-bottom:1px solid #eeeeee">{{ item.name }}</td><td align="right" style="${style}">{{ item.price | format_currency: "EUR" }}</td></tr>`;
const legal =
	'<p style="font-size:12px;color:#777777;margin:0 0 8px">Thank you for your order. Returns are free within 30 days; keep this receipt for your records.</p>';

/** A receipt with ten lines, one at a time to one domain: about 17 KB of mail. */
export const plain: Workload = {
	template: {
		locale: null,
		subject: 'Your receipt {{ number }} – thank you',
		html: `<!doctype html><html><body><h1>Hello {{ name }}</h1><table>{% for item in items %}${row}{% endfor %}</table>${legal.repeat(30)}</body></html>`,
	},
	to: 'user{n}@example.com',
	data: {name: 'Ada', number: '{n}', items: items(10)},
	domains: 1,
	perRequest: 1,
};

function items(count: number): ReadonlyArray<{readonly name: string; readonly price: number}> {
	return Array.from({length: count}, (_, n) => ({name: `Item ${n}`, price: 9.5 + n}));
}
