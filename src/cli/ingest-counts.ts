import type {Reading} from '../mail/report.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {fields, grouped} from './terminal-text.ts';

/**
 * The results of mails that were taken in; every mail that is new is one of the kinds from `bounces` to `unreadable`.
 */
export const nothingYet = {
	/** Mails that were found. */
	mails: 0,
	/** New here. */
	taken: 0,
	/** The same mail came before. */
	known: 0,
	bounces: 0,
	/** Delays, relays, deliveries, complaints taken back: reports without an effect. */
	notices: 0,
	complaints: 0,
	unsubscribes: 0,
	auto_replies: 0,
	/** DMARC and TLS reports. */
	aggregates: 0,
	/** Neither a report nor an automatic reply. */
	other: 0,
	/** Kept for a person: they could not be read, or not whole. */
	unreadable: 0,
	/** Of all these: about no mail of ours that could be proved. */
	unmatched: 0,
	events: 0,
	/** Larger than 10 MiB: only the beginning was taken. */
	cut: 0,
	/** Taken in and not read yet. */
	waiting: 0,
};

export type IngestCounts = typeof nothingYet;

/** Counts a mail that was read and recorded. */
export function countRead(counts: IngestCounts, reading: Reading, {about, kept}: ReportEffect): void {
	counts[kindOf(reading, about)]++;
	counts.unmatched += kept === 'unmatched' ? 1 : 0;
	counts.events += about.filter(({isNew, event}) => isNew && event !== null).length;
}

function kindOf({kind, reports, fault}: Reading, about: ReportEffect['about']): keyof IngestCounts {
	const says = (action: string) => reports.some(report => report.action === action);
	if (about.some(({via}) => via === 'unsubscribe_mail') || says('unsubscribe')) {
		return 'unsubscribes';
	}
	if (says('complaint')) {
		return 'complaints';
	}
	if (says('failed')) {
		return 'bounces';
	}
	if (kind === 'auto_reply') {
		return 'auto_replies';
	}
	if (fault !== null) {
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
	other: 'other mails',
	unreadable: 'not readable',
	unmatched: 'unmatched',
	events: 'new events',
	cut: 'over 10 MiB',
	waiting: 'not read yet',
};
/** Shown even if zero. */
const always = new Set(['known', 'bounces', 'complaints', 'unmatched', 'events']);

/** The figures for people, those that are nought left out where they say nothing. */
export function countLines(counts: IngestCounts): string[] {
	const shown = (Object.keys(titles) as Array<keyof typeof titles>).filter(key => counts[key] > 0 || always.has(key));
	const hints: Partial<Record<keyof IngestCounts, string>> = {
		unmatched: 'see mailctl bounce unmatched',
		cut: 'only their beginning was read',
		waiting: 'the daemon reads them',
	};
	return fields([
		['taken in', grouped(counts.taken)],
		...shown.map(key => {
			const hint = counts[key] > 0 && hints[key];
			return [titles[key], `${grouped(counts[key])}${hint ? `  ${hint}` : ''}`] as const;
		}),
	]);
}
