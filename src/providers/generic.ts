import {headerOf, hmacHex, same} from './proofs.ts';
import {
	batchOf,
	codeOf,
	eventOf,
	type Provider,
	type ProviderEvent,
	statusOf,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Either way, as our own receivers are advised (docs/reference/interface.md, Webhook request). */
const toleranceMs = 300_000;

/**
 * The form of our own webhooks, for a relay of one's own: `{type, message_id, recipient, occurred_at}`, signed with
 * X-Webhook-Timestamp and X-Webhook-Signature. `message_id` is a Message-ID of ours, and `ref` the value of X-Mailctl-Ref.
 */
export const generic: Provider = {
	secret: 'ours',
	proves(incoming, secret, now) {
		const timestamp = headerOf(incoming, 'x-webhook-timestamp');
		const signature = headerOf(incoming, 'x-webhook-signature');
		const expected = `sha256=${hmacHex(secret, `${timestamp}.`, incoming.body)}`;
		return same(signature, expected) && Math.abs(now - Number(timestamp) * 1000) <= toleranceMs;
	},
	events: batchOf,
	read: event => [
		eventOf({
			what: kinds.get(textOf(event.type)) ?? 'other',
			recipient: textOrNull(event.recipient),
			text: texts(event.reason, event.detail)[0] ?? '',
			code: codeOf(event.code),
			status: statusOf(event.status),
			host: textOrNull(event.host),
			verdict: event.bounce_type === 'permanent' ? 'permanent' : event.bounce_type === 'transient' ? 'transient' : null,
			refs: texts(event.ref),
			messageIds: texts(textOf(event.message_id).replace(/^<|>$/g, '')),
			providerIds: texts(event.message_id),
		}),
	],
	echo: null,
};

const kinds: ReadonlyMap<string, ProviderEvent['what']> = new Map([
	['delivered', 'delivered'],
	['bounced', 'bounced'],
	['dropped', 'dropped'],
	['deferred', 'deferred'],
	['complained', 'complained'],
	['unsubscribed', 'unsubscribed'],
	['opened', 'opened'],
	['clicked', 'clicked'],
]);
