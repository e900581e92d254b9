import type {Draft} from './draft.ts';

/** What the editor of a template without a version begins with: enough to see how it works. */
export const firstDraft: Draft = {
	begun: null,
	locale: '',
	added: false,
	subject: 'Your order {{ order.number }}',
	kind: 'mjml',
	source: `<mjml>
  <mj-body>
    <mj-section>
      <mj-column>
        <mj-text>Hello {{ name }},</mj-text>
        <mj-text>Thank you for your order {{ order.number }}.</mj-text>
        <mj-button href="{{ order.url }}">See your order</mj-button>
      </mj-column>
    </mj-section>
  </mj-body>
</mjml>
`,
	text: '',
	sample: `{
  "name": "Zoë",
  "order": {"number": "1042", "url": "https://shop.example/orders/1042"}
}
`,
};
