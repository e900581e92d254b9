import {randomBytes} from 'node:crypto';
import {setTimeout} from 'node:timers/promises';
import {createClassify} from '../bounce/classify.ts';
import {loadBounceRules} from '../config/bounce-rules.ts';
import type {Settings} from '../config/settings.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {freeBytes} from '../data-folder/data-dir.ts';
import type {FoundMail} from '../inbound/mail-files.ts';
import {ReadingLoop, recordReading} from '../inbound/reading.ts';
import {type Taken, takeIn} from '../inbound/take-in.ts';
import {createLinks} from '../links/links.ts';
import type {Reading} from '../mail/report.ts';
import {createReportWrite, type ReportEffect} from '../outcome/reports.ts';
import {readReport} from '../report/read-report.ts';
import {bumpGeneration} from '../store/changes.ts';
import {hasWorkspace} from '../store/workspaces.ts';
import {CliError} from './fault.ts';
import {openResolver} from './route-now.ts';
import type {Session} from './session.ts';
import {fields, grouped} from './text.ts';

/** Takes mails in and reads them, as the daemon does, in this process. */
export type Intake = {
	readonly counts: IngestCounts;
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	/** To be called now and then: resolves when what was taken in is read, and other writers had their turn. */
	readonly drain: () => Promise<void>;
	/** Ends; the error that kept some from being read, undefined: all were. */
	readonly end: () => Promise<unknown>;
};

/** `rcptTo`: whom the mails were for, where that is known. */
export async function createIntake(session: Session, rcptTo: readonly string[]): Promise<Intake> {
	const settings = session.settings();
	const store = await session.store();
	// A pipe with the settings of another folder would lose every mail in silence.
	if (!(await hasWorkspace(store.reader))) {
		throw new CliError(
			'config',
			'there is no workspace in this store, so no mail can be about one of its messages',
			'set MAILCTL_DATA_DIR or MAILCTL_DATABASE_URL to the values that the daemon uses',
		);
	}
	await requireRoom(settings);
	const {clock, newId} = session.tools;
	const counts = {...nothingYet};
	/** Taken in here, and not read yet. */
	const unread = new Set<string>();
	let began = clock.monotonic();
	let announced = 0;
	let failure: unknown;

	const classify = createClassify(loadBounceRules(settings));
	const node = newId('req');
	const recording = {
		writer: store.writer,
		links: createLinks({keys: await session.secrets(), publicUrl: '', random: randomBytes}),
		// The daemon looks for what is due when it is notified of a change.
		write: createReportWrite({newId, onDue: () => undefined}, {retentionDays: () => settings.retentionDays}),
		reporters: settings.feedbackReporters,
		resolver: openResolver(session),
		clock,
	};
	const reading = new ReadingLoop({
		store,
		node,
		alone: false,
		read: async raw => readReport(raw, classify),
		async record(cameIn, read, raw) {
			const effect = await recordReading(recording, cameIn, read, raw);
			if (unread.delete(cameIn.id)) {
				countRead(counts, read, effect);
			}
		},
		clock,
		observer: {
			inboundUnreadable({id}) {
				counts.unreadable += unread.delete(id) ? 1 : 0;
			},
			storeFailed(error) {
				// The mails are stored: the next reader of the store reads them.
				failure ??= error;
				void reading.stop();
			},
		},
	});

	/** What was taken in is read. */
	async function readAll(): Promise<void> {
		reading.wake();
		await reading.idle();
		if (counts.events > announced) {
			announced = counts.events;
			await session.write(bumpGeneration);
		}
	}

	async function drain(): Promise<void> {
		await readAll();
		// SQLite has one writer at a time: a daemon beside gets as long a turn.
		if (settings.databaseUrl === null && liveDaemon(settings.dataDir) !== null) {
			await setTimeout(clock.monotonic() - began);
		}
		began = clock.monotonic();
	}

	return {
		counts,
		async takeIn(found) {
			const {raw, source, mailFrom} = found;
			const taken = await takeIn({writer: store.writer, node, clock}, {raw, source, mailFrom, rcptTo});
			counts.mails++;
			counts[taken.isNew ? 'taken' : 'known']++;
			counts.cut += found.cut ? 1 : 0;
			if (taken.isNew) {
				unread.add(taken.id);
			}
			return taken;
		},
		drain,
		async end() {
			await readAll();
			await reading.stop();
			counts.waiting = unread.size;
			return failure;
		},
	};
}

/** As the daemon's listener: a mail server that pipes mail to us keeps it after exit code 75, and tries again. */
async function requireRoom({dataDir, databaseUrl, minFreeDisk}: Settings): Promise<void> {
	if (databaseUrl === null && (await freeBytes(dataDir)) < minFreeDisk) {
		throw new CliError(
			'temporary',
			`the disk of ${dataDir} has less free space than MAILCTL_MIN_FREE_DISK`,
			'free some space and try again',
		);
	}
}

/** The results of mails that were taken in; every mail that is new is one of the kinds from `bounces` to `unreadable`. */
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
	/** The events they caused. */
	events: number;
	/** Larger than 10 MiB: only the beginning was taken. */
	cut: number;
	/** Taken in and not read yet. */
	waiting: number;
};

const nothingYet: IngestCounts = {
	...{mails: 0, taken: 0, known: 0, bounces: 0, notices: 0, complaints: 0, unsubscribes: 0, auto_replies: 0},
	...{other: 0, unreadable: 0, unmatched: 0, events: 0, cut: 0, waiting: 0},
};

type Kind = 'bounces' | 'notices' | 'complaints' | 'unsubscribes' | 'auto_replies' | 'other' | 'unreadable';

/** Counts a mail that was read and recorded. */
function countRead(counts: IngestCounts, reading: Reading, {about, kept}: ReportEffect): void {
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
