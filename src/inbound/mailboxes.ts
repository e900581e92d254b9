import {type FSWatcher, watch as watchFolder} from 'node:fs';
import {join} from 'node:path';
import type {BounceMailbox} from '../config/urls.ts';
import type {Mailbox} from './follow.ts';
import type {FoundMail} from './found-mail.ts';
import {type Checkpoint, type ImapMailbox, imapFault, type MailboxFault, openFolder, takeNewOfFolder} from './imap.ts';
import {isMaildir, newMails, putAside} from './maildir.ts';
import {type Taken, takeAll} from './take-in.ts';

type MailboxOptions = {
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	readonly checkpoint: Checkpoint;
	/** PEM of authorities to trust besides the public ones. */
	readonly ca: string | null;
	/** A mail that cannot be read is left where it is. */
	readonly onUnreadable: (path: string, error: unknown) => void;
	/** The system cannot watch the folder, so that what comes waits for the interval; said once. */
	readonly onUnwatched: (error: unknown) => void;
	readonly watch?: typeof watchFolder;
};

/** The mailbox of MAILCTL_BOUNCE_MAILBOX. */
export function mailboxOf(mailbox: BounceMailbox, options: MailboxOptions): Mailbox {
	return mailbox.kind === 'imap' ? imapMailbox(mailbox, options) : maildirMailbox(mailbox.path, options);
}

/** Why it cannot be read, and how to mend it; never the password. */
export function mailboxFault(error: unknown, mailbox: BounceMailbox): MailboxFault {
	return mailbox.kind === 'imap' ? imapFault(error, mailbox) : maildirFault(error, mailbox.path);
}

function noting(takeIn: MailboxOptions['takeIn'], more: () => void): MailboxOptions['takeIn'] {
	return async found => {
		more();
		return await takeIn(found).finally(more);
	};
}

const lookMs = 1000;

function imapMailbox(mailbox: ImapMailbox, {takeIn, checkpoint, ca}: MailboxOptions): Mailbox {
	return {
		async open(wake, signal) {
			const client = await openFolder(mailbox, ca, signal);
			client.on('exists', wake);
			client.on('close', wake);
			return {
				async takeNew(stop, more) {
					// A large mail may take long over a slow line: what counts is that something comes.
					let received = 0;
					const watch = setInterval(() => {
						const now = client.stats().received;
						if (now > received) {
							more();
						}
						received = now;
					}, lookMs);
					try {
						return await takeNewOfFolder(client, {checkpoint, takeIn: noting(takeIn, more), signal: stop});
					} finally {
						clearInterval(watch);
					}
				},
				// Ends with the next command; a connection that is lost shows there.
				listen: () => void client.idle().catch(() => undefined),
				close: () => client.close(),
			};
		},
	};
}

/** The folder itself is at fault, which reading it will tell. */
const ofFolder: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM']);

function maildirMailbox(
	folder: string,
	{takeIn, onUnreadable, onUnwatched, watch = watchFolder}: MailboxOptions,
): Mailbox {
	let told = false;

	function unwatched(error: unknown): void {
		if (!told && !ofFolder.has((error as NodeJS.ErrnoException).code)) {
			told = true;
			onUnwatched(error);
		}
	}

	/** Null: the system can watch no folder, or no more of them, and there is the interval. */
	function watchNew(wake: () => void): FSWatcher | null {
		try {
			return watch(join(folder, 'new'), wake).on('error', unwatched);
		} catch (error) {
			unwatched(error);
			return null;
		}
	}

	return {
		async open(wake) {
			if (!(await isMaildir(folder))) {
				throw new Error('it has no folders new and cur');
			}
			const watching = watchNew(wake);
			return {
				async takeNew(signal, more) {
					const round = {taken: 0, known: 0, cut: 0};
					await takeAll(
						newMails(folder, signal, onUnreadable),
						noting(takeIn, more),
						async ({found, name}, {isNew}) => {
							await putAside(folder, name);
							round[isNew ? 'taken' : 'known']++;
							round.cut += found.cut ? 1 : 0;
						},
					);
					return round;
				},
				listen: () => undefined,
				close: () => watching?.close(),
			};
		},
	};
}

function maildirFault(error: unknown, folder: string): MailboxFault {
	const {code, message} = error as NodeJS.ErrnoException;
	return code === 'EACCES' || code === 'EPERM' || code === 'EROFS'
		? {
				reason: `the Maildir ${folder} cannot be used: ${message}`,
				fix: `let the user of the daemon read and write ${folder}/new and ${folder}/cur`,
			}
		: {
				reason: `${folder} is no Maildir: ${message}`,
				fix: 'name a folder with new, cur and tmp in MAILCTL_BOUNCE_MAILBOX',
			};
}
