import type {BounceRule} from '../mail/bounce-rule.ts';
import type {Reading} from '../mail/report.ts';

/** Mails for a reader thread, in the order in which it reads them; the rules by which it judges from then on. */
export type ToReader =
	| {readonly kind: 'mails'; readonly mails: readonly Uint8Array[]}
	| {readonly kind: 'rules'; readonly rules: readonly BounceRule[]};

/** What it read, in the same order; several messages may answer one. */
export type FromReader = {readonly readings: readonly Reading[]};

/** Slots of the memory shared with a reader: how many mails it has begun since its start, and whether it is at one. */
export const progress = {begun: 0, reading: 1, slots: 2} as const;
