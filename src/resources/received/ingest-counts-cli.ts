import {fields, grouped} from '../../cli/terminal-text.ts';
import type {Reading} from '../../mail/report.ts';
import type {ReportEffect} from '../../outcome/reports.ts';

/**
 * The counts of imported messages. Every new message is counted as one of the kinds from `bounces` to `unreadable`.
 */
export const nothingYet = {
	/** Messages found in the input. */
	mails: 0,
	/** Messages that are new to the store. */
	taken: 0,
	/** Messages that the store had already. */
	known: 0,
	bounces: 0,
	/** Reports without an effect: delays, relaying, deliveries, withdrawn complaints. */
	notices: 0,
	complaints: 0,
	unsubscribes: 0,
	auto_replies: 0,
	/** DMARC and TLS reports. */
	aggregates: 0,
	/** Neither a report nor an automatic reply. */
	other: 0,
	/** Messages that could not be read, or not completely; retained for a person. */
	unreadable: 0,
	/** Of all these, reports that could not be proved to be about one of our messages. */
	unmatched: 0,
	events: 0,
	/** Messages larger than 10 MiB, of which only the beginning was stored. */
	cut: 0,
	/** Messages that were stored but not read yet. */
	waiting: 0,
};

export type IngestCounts = typeof nothingYet;

/** Counts a message that was read and recorded. */
export function countRead(counts: IngestCounts, reading: Reading, {about, kept}: ReportEffect): void {
	counts[kindOf(reading, about)]++;
	counts.unmatched += kept === 'unmatched' ? 1 : 0;
	counts.events += about.filter(({isNew, event}) => isNew && event !== null).length;
}

function kindOf({kind, reports, fault: problem}: Reading, about: ReportEffect['about']): keyof IngestCounts {
	const hasAction = (action: string) => reports.some(report => report.action === action);
	if (about.some(({via}) => via === 'unsubscribe_mail') || hasAction('unsubscribe')) {
		return 'unsubscribes';
	}
	if (hasAction('complaint')) {
		return 'complaints';
	}
	if (hasAction('failed')) {
		return 'bounces';
	}
	if (kind === 'auto_reply') {
		return 'auto_replies';
	}
	if (problem !== null) {
		return 'unreadable';
	}
	if (kind === 'dmarc' || kind === 'tls') {
		return 'aggregates';
	}
	return kind === 'other' ? 'other' : 'notices';
}

const titles: Readonly<Record<Exclude<keyof IngestCounts, 'mails' | 'taken'>, string>> = {
	known: 'known before',
	bounces: 'bounces',
	complaints: 'complaints',
	unsubscribes: 'unsubscribes',
	auto_replies: 'auto-replies',
	aggregates: 'DMARC, TLS reports',
	notices: 'other reports',
	other: 'other messages',
	unreadable: 'unreadable',
	unmatched: 'unmatched',
	events: 'new events',
	cut: 'over 10 MiB',
	waiting: 'not read yet',
};
/** Shown even if zero. */
const alwaysShown = new Set(['known', 'bounces', 'complaints', 'unmatched', 'events']);

/** Formats the counts for people, without zeros that say nothing. */
export function countLines(counts: IngestCounts): string[] {
	const visible = (Object.keys(titles) as Array<keyof typeof titles>).filter(
		key => counts[key] > 0 || alwaysShown.has(key),
	);
	const hints: Partial<Record<keyof IngestCounts, string>> = {
		unmatched: 'see mailctl bounce unmatched',
		cut: 'only the beginning was read',
		waiting: 'the daemon reads them',
	};
	return fields([
		['imported', grouped(counts.taken)],
		...visible.map(key => {
			const hint = counts[key] > 0 && hints[key];
			return [titles[key], `${grouped(counts[key])}${hint ? `  ${hint}` : ''}`] as const;
		}),
	]);
}
