import type {Mode} from './message.ts';

/** Why an address no longer receives messages from a workspace (docs/reference/interface.md, Suppression entry). */
export const suppressionReasons = ['hard_bounce', 'complaint', 'manual', 'unsubscribe'] as const;
export type SuppressionReason = (typeof suppressionReasons)[number];

/** Whether an entry of this mode (`undefined`: no entry) blocks a message. Test entries block only test mail. */
export function suppresses(entry: Mode | undefined, mail: Mode): boolean {
	return entry === 'live' || (entry === 'test' && mail === 'test');
}
