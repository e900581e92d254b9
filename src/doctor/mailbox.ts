import {constants} from 'node:fs';
import {access} from 'node:fs/promises';
import {join} from 'node:path';
import type {BounceMailbox} from '../config/urls.ts';
import {nameOfMailbox, openFolder} from '../inbound/imap-client.ts';
import {mailboxFault} from '../inbound/mailboxes.ts';
import {isMaildir, namesIn} from '../inbound/maildir.ts';
import {type Check, fail, ok} from './finding.ts';

/** Whether the mailbox of MAILCTL_BOUNCE_MAILBOX can be opened and read. `ca`: PEM of authorities besides the public ones. */
export function mailboxCheck(mailbox: BounceMailbox, ca: string | null): Check {
	return {
		name: 'mailbox',
		why: 'Bounces that arrive in a mailbox count for nothing while it cannot be read.',
		async look() {
			try {
				const found = mailbox.kind === 'imap' ? await lookInto(mailbox, ca) : await lookAt(mailbox.path);
				return [ok(`${nameOfMailbox(mailbox)} can be read: ${found}`)];
			} catch (error) {
				const {reason, fix} = mailboxFault(error, mailbox);
				return [fail(reason, fix)];
			}
		},
	};
}

async function lookInto(mailbox: Extract<BounceMailbox, {kind: 'imap'}>, ca: string | null): Promise<string> {
	const client = await openFolder(mailbox, ca);
	const mails = client.mailbox === false ? 0 : client.mailbox.exists;
	const idle = client.capabilities.has('IDLE') ? 'new mail is told at once' : 'new mail is found at the next poll';
	client.close();
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
