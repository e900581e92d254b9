import type {Role} from '../mail/message.ts';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';

export type Copy = {readonly address: string; readonly role: Role};

/** What the timeline tells of a try's end, beside the type: JSON text, absent fields left out. */
export function eventDetail(
	copy: Copy,
	attempt: number,
	result: AttemptResult,
	outcome: Outcome,
	possibleDuplicate: boolean,
): string {
	const last = result.attempts.at(-1);
	return JSON.stringify({
		recipient: copy.address,
		role: copy.role,
		attempt,
		...(last && {
			host: last.host ?? undefined,
			ip: last.ip ?? undefined,
			tls: last.tls ?? undefined,
			code: last.code ?? undefined,
			enhanced: last.enhanced ?? undefined,
			reply: last.reply,
		}),
		...explanation(outcome),
		...(possibleDuplicate && {possible_duplicate: true}),
	});
}

function explanation(outcome: Outcome): Record<string, unknown> {
	switch (outcome.kind) {
		case 'bounced':
			return {
				type: outcome.type,
				category: outcome.category,
				reason: outcome.reason,
				...(outcome.category === 'expired' && {enhanced: '4.4.7'}),
				...(outcome.escalated && {escalated: outcome.escalated}),
			};
		case 'errored':
			return {reason: outcome.reason, ...(outcome.message !== undefined && {message: outcome.message})};
		case 'suppressed':
			return {reason: outcome.reason};
		default:
			return {};
	}
}
