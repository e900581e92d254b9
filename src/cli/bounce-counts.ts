import type {Reading} from '../mail/report.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {grouped} from './progress.ts';
import {fields} from './table.ts';

/** What became of mails that were taken in; every mail that is new is one of the kinds from `bounces` to `unreadable`. */
export type IngestCounts = {
	/** Mails that were found. */
	mails: number;
	/** New here. */
	taken: number;
	/** The same mail came before. */
	known: number;
	bounces: number;
	/** Delays, relays, deliveries, complaints taken back: reports without an effect. */
	notices: number;
	complaints: number;
	unsubscribes: number;
	auto_replies: number;
	/** Neither a report nor an automatic reply. */
	other: number;
	/** Kept for a person: they could not be read, or not whole. */
	unreadable: number;
	/** Of all these: about no mail of ours that could be proved. */
	unmatched: number;
	/** Events that came of them. */
	events: number;
	/** Larger than 10 MiB: only the beginning was taken. */
	cut: number;
	/** Taken in and not read yet. */
	waiting: number;
};

export const nothingYet: IngestCounts = {
	...{mails: 0, taken: 0, known: 0, bounces: 0, notices: 0, complaints: 0, unsubscribes: 0, auto_replies: 0},
	...{other: 0, unreadable: 0, unmatched: 0, events: 0, cut: 0, waiting: 0},
};

type Kind = 'bounces' | 'notices' | 'complaints' | 'unsubscribes' | 'auto_replies' | 'other' | 'unreadable';

/** Counts a mail that was read and recorded. */
export function countRead(counts: IngestCounts, reading: Reading, {about, kept}: ReportEffect): void {
	counts[kindOf(reading, about)]++;
	counts.unmatched += kept === 'unmatched' ? 1 : 0;
	counts.events += about.filter(({isNew, event}) => isNew && event !== null).length;
}

function kindOf({kind, reports, fault}: Reading, about: ReportEffect['about']): Kind {
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
	return kind === 'other' ? 'other' : 'notices';
}

const titles: Readonly<Record<Exclude<keyof IngestCounts, 'mails' | 'taken'>, string>> = {
	known: 'known before',
	bounces: 'bounces',
	complaints: 'complaints',
	unsubscribes: 'unsubscribes',
	auto_replies: 'auto-replies',
	notices: 'other reports',
	other: 'other mails',
	unreadable: 'not readable',
	unmatched: 'unmatched',
	events: 'new events',
	cut: 'over 10 MiB',
	waiting: 'not read yet',
};
/** Said also where there are none. */
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
