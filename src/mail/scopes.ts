/** What a key may be allowed (interface.md, Authentication; decisions.md for those its table lacks). */
export const scopes = [
	'messages:send',
	'messages:read',
	'suppressions:manage',
	'suppressions:read',
	'unsubscribe_groups:manage',
	'unsubscribe_groups:read',
	'webhooks:manage',
	'webhooks:read',
	'templates:manage',
	'templates:read',
	'senders:manage',
	'senders:read',
	'contacts:manage',
	'contacts:read',
	'usage:read',
] as const;
export type Scope = (typeof scopes)[number];
