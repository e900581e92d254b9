import {constants} from 'node:fs';
import {access} from 'node:fs/promises';
import {join} from 'node:path';
import type {BounceMailbox} from '../config/parsers.ts';
import {probeNext} from '../inbound/imap-folder.ts';
import {isMaildir, namesIn} from '../inbound/mail-files.ts';
import {mailboxProblem, nameOfMailbox, openFolder, withinLimit} from '../inbound/mailboxes.ts';
import type {Clock} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import type {MailboxNote} from '../resources/received/mailbox-store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

/** The limit of each IMAP step: opening the folder, fetching a message, and stopping IDLE. */
const imapMs = 30_000;

type MailboxCheckOptions = {
	/** Certificate authorities trusted in addition to the public ones (PEM). */
	readonly ca: string | null;
	readonly clock: Pick<Clock, 'now'>;
	/** Reads what the daemon noted about the mailbox, if anything. */
	readonly readNote: (name: string) => Promise<MailboxNote | undefined>;
	/** The limit of each IMAP step; 30 seconds by default. */
	readonly waitLimitMs?: number;
};

/** Checks whether the mailbox of MAILCTL_BOUNCE_MAILBOX can be read, and whether messages were skipped recently. */
export function mailboxCheck(mailbox: BounceMailbox, options: MailboxCheckOptions): Check {
	const name = nameOfMailbox(mailbox);
	return {
		name: 'mailbox',
		why: 'Bounces in a mailbox have no effect while it cannot be read.',
		async run() {
			const note = await options.readNote(name);
			try {
				const summary =
					mailbox.kind === 'imap'
						? await probeImap(mailbox, note?.position ?? null, options)
						: await probeMaildir(mailbox.path);
				return [ok(`${name} can be read: ${summary}`), ...recentlySkipped(name, note, options.clock.now())];
			} catch (error) {
				const {reason, fix} = mailboxProblem(error, mailbox);
				return [fail(reason, fix)];
			}
		},
	};
}

/** For how long a skipped message causes a warning. */
const skipWarningMs = 7 * dayMs;

function recentlySkipped(name: string, note: MailboxNote | undefined, now: number): CheckResult[] {
	const {skipped = 0, skipped_at: skippedAt = null, skip_reason: reason} = note ?? {};
	if (skippedAt === null || now - Date.parse(skippedAt) > skipWarningMs) {
		return [];
	}
	const messages = skipped === 1 ? '1 message was' : `${skipped} messages were`;
	return [
		warn(
			`${messages} skipped in ${name}, the last one ${skippedAt.slice(0, 16)} UTC: ${reason}`,
			'check the mail server’s log; a copy saved from a mail client can be read with mailctl bounce ingest',
		),
	];
}

async function probeImap(
	mailbox: Extract<BounceMailbox, {kind: 'imap'}>,
	position: string | null,
	{ca, waitLimitMs = imapMs}: MailboxCheckOptions,
): Promise<string> {
	const controller = new AbortController();
	const client = await withinLimit(waitLimitMs, () => openFolder(mailbox, ca, controller.signal)).catch(error => {
		controller.abort();
		throw error;
	});
	const messageCount = client.mailbox === false ? 0 : client.mailbox.exists;
	const canIdle = client.capabilities.has('IDLE');
	try {
		await withinLimit(waitLimitMs, () => probeNext(client, position));
		if (canIdle) {
			void client.idle().catch(() => undefined);
		}
		// NOOP stops the IDLE. A server that does not respond to it would block the daemon’s next read.
		await withinLimit(waitLimitMs, () => client.noop());
	} finally {
		client.close();
	}
	const idle = canIdle ? 'new messages are reported at once' : 'new messages are found at the next poll';
	return `${messageCount} ${messageCount === 1 ? 'message' : 'messages'}, ${idle}`;
}

async function probeMaildir(folder: string): Promise<string> {
	if (!(await isMaildir(folder))) {
		throw new Error('it does not contain the folders new and cur');
	}
	// Reading a message moves it from `new` to `cur`.
	for (const part of ['new', 'cur']) {
		await access(join(folder, part), constants.R_OK | constants.W_OK | constants.X_OK);
	}
	const names = await namesIn(folder, 'new');
	return `${names.length} new ${names.length === 1 ? 'message' : 'messages'}`;
}
