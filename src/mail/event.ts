/** Timeline event types (docs/reference/interface.md, Message event). */
export const eventTypes = [
	'accepted',
	'queued',
	'sent',
	'delivered',
	'opened',
	'clicked',
	'bounced',
	'complained',
	'suppressed',
	'unsubscribed',
	'errored',
] as const;
export type EventType = (typeof eventTypes)[number];

/** The event types that webhooks carry (docs/reference/interface.md, Webhook events). */
export const webhookEventTypes = ['delivered', 'bounced', 'complained', 'opened', 'clicked'] as const;
export type WebhookEventType = (typeof webhookEventTypes)[number];
