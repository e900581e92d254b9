import {linkBase} from '../config/derive.ts';
import {createRecipientMails} from '../daemon/recipient-mails.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';

/** The mail of a copy: what was captured, else made again as the daemon makes it. */
export async function rawMail(session: Session, workspaceId: string, recipientId: string): Promise<Uint8Array> {
	const settings = session.settings();
	const recipients = createRecipientMails({
		settings,
		store: await session.store(),
		vault: await session.vault(),
		secrets: await session.secrets(),
		clock: session.tools.clock,
		publicUrl: () => linkBase(settings, liveDaemon(settings.dataDir)?.http),
	});
	const captured = await recipients.captured(recipientId);
	if (captured !== null) {
		return captured;
	}
	const made = await recipients.remade(workspaceId, recipientId);
	if (made === 'no_sender') {
		throw new CliError('unavailable', 'the mail cannot be made again: its sender was removed', 'add the sender again');
	}
	session.terminal.warn('mailctl: not captured, so made again: the signatures and the link’s token are other ones');
	if (!made.ok) {
		throw new CliError('data', `the mail cannot be made: ${made.message}`, 'correct the template and send again');
	}
	return made.mail;
}
