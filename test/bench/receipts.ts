import {plain} from '../../src/cli/bench/throw-away.ts';
import type {VariantSource} from '../../src/compose/render/compile.ts';

/** A template and the data of the message with a number. */
export type Workload = {
	readonly name: string;
	readonly source: VariantSource;
	/** `{n}` as the number: for the load generator, which puts the number there. */
	readonly dataOf: (number: number | '{n}') => Readonly<Record<string, unknown>>;
};

/** The mail of the bench: 17 KB of html with ten items. */
export const receipt: Workload = {
	name: 'receipt',
	source: plain.template,
	dataOf: number => ({...plain.data, number: String(number)}),
};

const line = (label: string, value: string) => `<tr><td>${label}</td><td align="right">${value}</td></tr>`;
const money = (value: string) => `{{ ${value} | format_currency: order.currency }}`;

/** An order as shops send them, in MJML: twelve items, 20 KB. */
export const itemReceipt: Workload = {
	name: 'twelve items',
	source: {
		locale: null,
		subject: 'Order {{ order.number }}: thank you, {{ customer.name }}',
		mjml: `<mjml lang="en"><mj-head><mj-title>Order {{ order.number }}</mj-title>
<mj-preview>We pack your order and tell you when it leaves.</mj-preview>
<mj-attributes><mj-all font-family="Helvetica, Arial, sans-serif" /><mj-text font-size="15px" line-height="22px" color="#333333" /></mj-attributes></mj-head>
<mj-body background-color="#f4f4f4">
<mj-section background-color="#ffffff"><mj-column><mj-text font-size="24px">Thank you, {{ customer.name }}!</mj-text>
<mj-text>Ordered {{ order.placed_at | format_datetime: "medium", "short" }}{% if order.due %}, due {{ order.due | format_date: "long" }}{% endif %}.</mj-text>
<mj-button href="{{ order.url }}" background-color="#1a5fb4">View order</mj-button></mj-column></mj-section>
<mj-section background-color="#ffffff"><mj-column><mj-table>
<tr><th align="left">Item</th><th>Quantity</th><th align="right">Price</th></tr>
{% for item in order.items -%}
<tr style="border-bottom:1px solid #eeeeee"><td style="padding:8px 0"><a href="{{ item.url }}" style="color:#1a5fb4;text-decoration:none">{{ item.name }}</a><br /><span style="font-size:12px;color:#777777">{{ item.sku | upcase }}</span></td><td align="center">{{ item.quantity }} ×</td><td align="right">${money('item.price')}</td></tr>
{% endfor %}
${line('Shipping', money('order.shipping'))}${line('Tax', money('order.tax'))}${line('<b>Total</b>', `<b>${money('order.total')}</b>`)}
</mj-table></mj-column></mj-section>
<mj-section background-color="#ffffff"><mj-column><mj-text><b>Deliver to</b><br />{{ customer.name }}<br />{{ customer.street }}<br />{{ customer.city }}</mj-text></mj-column>
<mj-column><mj-text><b>Bill to</b><br />{{ customer.name }}<br />{{ customer.street }}<br />{{ customer.city }}</mj-text></mj-column></mj-section>
<mj-section><mj-column><mj-divider border-color="#dddddd" /><mj-text font-size="12px" color="#777777">Returns are free within 30 days. Keep this receipt for your records. Questions? <a href="https://shop.example/help">We are glad to help.</a></mj-text>
<mj-social mode="horizontal"><mj-social-element name="facebook" src="https://shop.example/facebook.png" href="https://social.example/shop">Follow</mj-social-element></mj-social>
<mj-text font-size="12px" color="#777777" align="center"><a href="{{ unsubscribe_url }}">Unsubscribe</a></mj-text></mj-column></mj-section>
</mj-body></mjml>`,
	},
	dataOf: number => ({
		customer: {name: 'Ada Lovelace', street: '12 St James’s Square', city: 'London SW1Y 4JH'},
		order: {
			number: `R-${number}`,
			currency: 'EUR',
			placed_at: '2026-06-09T23:30:00+00:00',
			due: '2026-07-01',
			url: `https://shop.example/orders/${number}?a=1&b=2`,
			shipping: 4.9,
			tax: '47.11',
			total: '1234.56',
			items: Array.from({length: 12}, (_, n) => ({
				name: `Punch cards, box ${n} – 80 columns`,
				sku: `pc-80-${n}`,
				url: `https://shop.example/items/pc-80-${n}`,
				quantity: n + 1,
				price: 22.63 + n,
			})),
		},
	}),
};
