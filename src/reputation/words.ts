import type {Span} from '../mail/reputation.ts';
import type {Finding} from './findings.ts';

export const spanNames: Readonly<Record<Span, string>> = {day: '24 hours', week: '7 days'};

/** `15%`, `0.35%`: at most two decimals. */
export function percent(share: number): string {
	return `${Number((share * 100).toFixed(2))}%`;
}

/** `30 of 200 bounced in 24 hours (15%, limit 10%)`. */
function findingText({kind, span, n, of, share, limit}: Finding): string {
	const what = kind === 'bounces' ? 'bounced' : 'complained';
	return `${n} of ${of} ${what} in ${spanNames[span]} (${percent(share)}, limit ${percent(limit)})`;
}

/** Of each kind of finding the first. */
export function findingsText(findings: readonly Finding[]): string {
	const first = findings.filter((one, index) => findings.findIndex(({kind}) => kind === one.kind) === index);
	return first.map(findingText).join('; ');
}

/** Why a workspace is paused by its figures; those by hand have the operator's words. */
export function pauseReason(findings: readonly Finding[]): string {
	return `reputation: ${findingsText(findings.filter(({level}) => level === 'pause'))}`;
}
