import type {Mode} from './message.ts';

/** Why an address gets no mail of a workspace any more (docs/reference/interface.md, Suppression entry). */
export const suppressionReasons = ['hard_bounce', 'complaint', 'manual', 'unsubscribe'] as const;
export type SuppressionReason = (typeof suppressionReasons)[number];

/**
 * The mail without the To and Cc fields that name an address (in comparison form), even if they name others too (RFC
 * 5322 §3.6.3). Null: no field names it, or this is not a mail.
 */
export function suppresses(entry: Mode | undefined, mail: Mode): boolean {
	return entry === 'live' || (entry === 'test' && mail === 'test');
}
