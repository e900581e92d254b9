import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import {followMailbox} from '../inbound/follow.ts';
import type {FoundMail} from '../inbound/found-mail.ts';
import {nameOfMailbox, silenceMs} from '../inbound/imap.ts';
import {mailboxFault, mailboxOf} from '../inbound/mailboxes.ts';
import type {Taken} from '../inbound/take-in.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {MailLog} from '../log/mail-events.ts';
import {readCheckpoint, saveCheckpoint} from '../store/inbound-mails.ts';
import type {Store} from '../store/store.ts';

export type MailboxPollingOptions = {
	readonly settings: Pick<Settings, 'bounceMailbox' | 'bounceMailboxInterval' | 'caFile'>;
	readonly store: Pick<Store, 'reader' | 'writer'>;
	/** Resolves when the mail is on stable storage. */
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	/** Whether the disk has room for mail; where it has none, mail stays in the mailbox. */
	readonly hasRoom: () => boolean;
	readonly clock: Pick<Clock, 'now'>;
	readonly mailLog: Pick<
		MailLog,
		'mailboxOpened' | 'mailboxRead' | 'mailboxFailed' | 'mailboxRecovered' | 'mailboxUnwatched' | 'mailUnreadable'
	>;
	readonly onStoreError: (error: unknown) => void;
};

/** However often it is polled, a server has this long to answer. */
const shortestPatienceMs = 10_000;

/** What polling came to since the start. */
export type MailboxFigures = {
	/** Whether the mailbox could be read the last time; null: it was not tried yet. */
	readonly up: boolean | null;
	readonly taken: number;
	readonly known: number;
	readonly failures: number;
};

/** Follows the mailbox of MAILCTL_BOUNCE_MAILBOX from now on; null where none is set. */
export function startMailboxPolling({
	settings,
	store,
	takeIn,
	hasRoom,
	clock,
	mailLog,
	onStoreError,
}: MailboxPollingOptions) {
	const {bounceMailbox, bounceMailboxInterval} = settings;
	if (bounceMailbox === null) {
		return null;
	}
	const name = nameOfMailbox(bounceMailbox);
	const figures = {up: null as boolean | null, taken: 0, known: 0, failures: 0};
	let reason = '';
	const ofStore = new WeakSet();

	/** What fails here is no fault of the mailbox. */
	async function inStore<Result>(work: Promise<Result>): Promise<Result> {
		return await work.catch(error => {
			ofStore.add(error);
			onStoreError(error);
			throw error;
		});
	}

	const following = followMailbox({
		mailbox: mailboxOf(bounceMailbox, {
			async takeIn(found) {
				if (!hasRoom()) {
					const full = new Error('The disk has less free space than MAILCTL_MIN_FREE_DISK.');
					ofStore.add(full); // Told already, and no fault of the mailbox.
					throw full;
				}
				return await inStore(takeIn(found));
			},
			ca: extraCa(settings),
			checkpoint: {
				load: () => inStore(readCheckpoint(store.reader, name)),
				save: position =>
					inStore(
						store.writer.transaction(trx => saveCheckpoint(trx, {mailbox: name, position, at: storeTime(clock.now())})),
					),
			},
			onUnreadable: (path, error) => mailLog.mailUnreadable({mailbox: name, path}, error),
			onUnwatched: error => mailLog.mailboxUnwatched({mailbox: name}, error),
		}),
		intervalMs: bounceMailboxInterval,
		patienceMs: Math.min(Math.max(bounceMailboxInterval, shortestPatienceMs), silenceMs),
		onRound({taken, known, cut}, works) {
			if (works) {
				if (figures.up === null) {
					mailLog.mailboxOpened({mailbox: name});
				} else if (!figures.up) {
					mailLog.mailboxRecovered({mailbox: name});
				}
				figures.up = true;
				reason = '';
			}
			figures.taken += taken;
			figures.known += known;
			if (taken + known > 0) {
				mailLog.mailboxRead({mailbox: name, taken, known, cut});
			}
		},
		onFailure(error, waitMs) {
			if (ofStore.has(error as object)) {
				return;
			}
			const fault = mailboxFault(error, bounceMailbox);
			figures.up = false;
			figures.failures++;
			// Once, not at every try.
			if (fault.reason !== reason) {
				reason = fault.reason;
				mailLog.mailboxFailed({mailbox: name, ...fault, retryMs: waitMs});
			}
		},
	});
	return {
		figures: (): MailboxFigures => ({...figures}),
		/** Resolves when nothing of it is under way any more. */
		stop: following.stop,
	};
}

export type MailboxPolling = ReturnType<typeof startMailboxPolling>;
