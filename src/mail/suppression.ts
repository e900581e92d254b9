/** Why an address gets no mail of a workspace any more (interface.md, Suppression entry). */
export const suppressionReasons = ['hard_bounce', 'complaint', 'manual', 'unsubscribe'] as const;
export type SuppressionReason = (typeof suppressionReasons)[number];
