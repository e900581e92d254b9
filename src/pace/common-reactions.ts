import type {PaceReaction} from '../mail/route.ts';

type CommonReaction = {
	readonly text: RegExp;
	/** From the match and the mails that a connection may carry now. */
	readonly reaction: (found: RegExpExecArray, mailsPerSession: number) => PaceReaction;
};

const reputationMs = 90 * 60_000;

/** What any host may say, where the destination has no rule of its own (R8.3). */
export const commonReactions: readonly CommonReaction[] = [
	{
		text: /(?:max(?:imum)?|too many|limit)\D{0,40}?(\d{1,4})?\s?(?:messages|mails|e-?mails|transactions)\b.{0,20}\b(?:per|in|on|for) (?:this |one |a |each |the |single )*(?:connection|session)/i,
		reaction: (found, now) => ({
			kind: 'mails_per_session',
			mails: found[1] === undefined ? Math.max(1, Math.floor(now / 2)) : Math.max(1, Number(found[1])),
		}),
	},
	{
		text: /(?:deferred|rate.?limited|throttled|delayed|blocked)\b.{0,60}\b(?:user complaints|ip.{0,12}reputation)|^4.{0,80}\breputation of (?:your|the) ip|^4.{0,80}\b(?:low|poor|bad) (?:ip )?reputation/i,
		reaction: () => ({kind: 'slow', perMinute: 1, connections: 1, forMs: reputationMs}),
	},
];
