import type {Report, ReportKind, Via} from '../mail/report.ts';
import {isYoung, type Known, type ReadMail} from './matches.ts';
import {cutReport} from './report-summary.ts';

/** How a mail that is kept was read, for `mailctl bounce unmatched`; JSON in the store. */
export type Review = {
	readonly kind: ReportKind;
	/** The first ones. */
	readonly reports: readonly Report[];
	/** The tokens that were found in it, and why they prove nothing. */
	readonly tried: ReadonlyArray<{readonly via: Via; readonly id: string; readonly fault: TokenFault}>;
};

/** `late`: older than messages are kept; `gone`: no such copy, or no more; `forged`: not made by us for that copy. */
export type TokenFault = 'late' | 'gone' | 'forged';

const mostShown = 10;

/** What is kept of a reading, as JSON text. */
export function reviewText(item: ReadMail, known: Known, acceptMs: number): string {
	const {kind, reports} = item.reading;
	const tried = item.candidates.slice(0, mostShown).flatMap(candidate => {
		const {via, id} = candidate;
		const copy = known.copies.get(id);
		if (copy ? candidate.verify(copy.address) : known.messages.has(id)) {
			return [];
		}
		const fault = isYoung(candidate, item.cameIn, acceptMs) ? (copy ? 'forged' : 'gone') : 'late';
		return [{via, id, fault} as const];
	});
	return JSON.stringify({kind, reports: reports.slice(0, mostShown).map(cutReport), tried} satisfies Review);
}
