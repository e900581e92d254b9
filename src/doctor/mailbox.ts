import {constants} from 'node:fs';
import {access} from 'node:fs/promises';
import {join} from 'node:path';
import type {BounceMailbox} from '../config/parsers.ts';
import {probeNext} from '../inbound/imap-folder.ts';
import {isMaildir, namesIn} from '../inbound/mail-files.ts';
import {mailboxFault, nameOfMailbox, openFolder, withinLimit} from '../inbound/mailboxes.ts';
import type {Clock} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import type {MailboxNote} from '../store/mailbox-checkpoints.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

/** To log in and open the folder, to fetch a message, and to end IDLE. */
const imapMs = 30_000;

type MailboxCheckOptions = {
	/** PEM of authorities in addition to the public ones. */
	readonly ca: string | null;
	readonly clock: Pick<Clock, 'now'>;
	/** What the daemon noted of the mailbox; `undefined`: nothing. */
	readonly readNote: (name: string) => Promise<MailboxNote | undefined>;
	/** Absent: half a minute. */
	readonly waitLimitMs?: number;
};

/**
 * Whether the mailbox of MAILCTL_BOUNCE_MAILBOX can be opened and read, and whether messages of it were skipped lately.
 */
export function mailboxCheck(mailbox: BounceMailbox, options: MailboxCheckOptions): Check {
	const name = nameOfMailbox(mailbox);
	return {
		name: 'mailbox',
		why: 'Bounces that arrive in a mailbox count for nothing while it cannot be read.',
		async look() {
			const note = await options.readNote(name);
			try {
				const found =
					mailbox.kind === 'imap'
						? await lookInto(mailbox, note?.position ?? null, options)
						: await lookAt(mailbox.path);
				return [ok(`${name} can be read: ${found}`), ...skippedLately(name, note, options.clock.now())];
			} catch (error) {
				const {reason, fix} = mailboxFault(error, mailbox);
				return [fail(reason, fix)];
			}
		},
	};
}

/** An operator who has not looked for this long does not want to know. */
const skipNewsMs = 7 * dayMs;

function skippedLately(name: string, note: MailboxNote | undefined, now: number): Found[] {
	const {skipped = 0, skipped_at: at = null, skip_reason: reason} = note ?? {};
	if (at === null || now - Date.parse(at) > skipNewsMs) {
		return [];
	}
	const messages = skipped === 1 ? '1 message was' : `${skipped} messages were`;
	return [
		warn(
			`${messages} skipped in ${name}, the last one ${at.slice(0, 16)} UTC: ${reason}`,
			'open the message with a mail program and look at the log of the mail server; a copy in a file can be read with mailctl bounce ingest',
		),
	];
}

async function lookInto(
	mailbox: Extract<BounceMailbox, {kind: 'imap'}>,
	position: string | null,
	{ca, waitLimitMs = imapMs}: MailboxCheckOptions,
): Promise<string> {
	const giveUp = new AbortController();
	const client = await withinLimit(waitLimitMs, () => openFolder(mailbox, ca, giveUp.signal)).catch(error => {
		giveUp.abort();
		throw error;
	});
	const mails = client.mailbox === false ? 0 : client.mailbox.exists;
	const canIdle = client.capabilities.has('IDLE');
	try {
		await withinLimit(waitLimitMs, () => probeNext(client, position));
		if (canIdle) {
			void client.idle().catch(() => undefined);
		}
		// Ends the IDLE: a server that does not answer would keep the daemon from reading on.
		await withinLimit(waitLimitMs, () => client.noop());
	} finally {
		client.close();
	}
	const idle = canIdle ? 'new mail is reported at once' : 'new mail is found at the next poll';
	return `${mails} ${mails === 1 ? 'mail' : 'mails'}, ${idle}`;
}

async function lookAt(folder: string): Promise<string> {
	if (!(await isMaildir(folder))) {
		throw new Error('it has no folders new and cur');
	}
	// Mails are moved from the one to the other.
	for (const part of ['new', 'cur']) {
		await access(join(folder, part), constants.R_OK | constants.W_OK | constants.X_OK);
	}
	const names = await namesIn(folder, 'new');
	return `${names.length} new ${names.length === 1 ? 'mail' : 'mails'}`;
}
