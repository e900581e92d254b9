import type {Mode} from './message.ts';

/** What a key may be allowed. */
export const scopes = [
	'messages:send',
	'messages:read',
	'messages:submit',
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

/** Given only to keys that name it: it lets a mail client submit by SMTP. */
const named: Scope = 'messages:submit';
const all = scopes.filter(scope => scope !== named);

/** What a key may do that names no scope. A test key may send and read; it manages only what it is made to manage. */
export function usualScopes(mode: Mode): readonly Scope[] {
	return mode === 'live' ? all : all.filter(scope => scope === 'messages:send' || scope.endsWith(':read'));
}
