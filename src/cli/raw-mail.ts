import {randomBytes} from 'node:crypto';
import {importSigningKey} from '../compose/dkim.ts';
import {boundPublicUrl} from '../config/derive.ts';
import {createSigning, feedbackOf, makeJob} from '../daemon/make-job.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {createLinks} from '../links/links.ts';
import {readRegular} from '../mail/regular-file.ts';
import {createRenderer} from '../render/render.ts';
import {listAttachments} from '../store/attachments.ts';
import {type Claimed, readCopy} from '../store/queue/claims.ts';
import {listVariants} from '../store/templates.ts';
import {createMake} from '../threads/make.ts';
import {CliError} from './fault.ts';
import {capturedFile} from './files.ts';
import type {Session} from './session.ts';

/** No mail of ours is larger, whatever is attached to it. */
const mostCaptured = 128 * 1024 ** 2;

/** The mail of a copy: what was captured, else made again as the daemon makes it. */
export async function rawMail(session: Session, workspaceId: string, copyId: string): Promise<Uint8Array> {
	const captured = capturedFile(session.settings().dataDir, copyId);
	if (captured !== null) {
		return await readRegular(captured, mostCaptured, 'refuse');
	}
	const copy = await readCopy(await session.reader(), workspaceId, copyId);
	if (!copy?.domain_id) {
		throw new CliError('unavailable', 'the mail cannot be made again: its sender was removed', 'add the sender again');
	}
	session.terminal.warn('mailctl: not captured, so made again: the signatures and the link’s token are other ones');
	return await makeAgain(session, {...copy, domain_id: copy.domain_id});
}

async function makeAgain(session: Session, copy: Claimed & {readonly domain_id: string}): Promise<Uint8Array> {
	const settings = session.settings();
	const store = await session.store();
	const {clock} = session.tools;
	const signing = createSigning(store, await session.vault(), clock);
	const {keyIds, returnPathDomain} = await signing.of(copy.domain_id);
	const keys = await signing.keys(keyIds);
	const variants = await listVariants(store.reader, copy.version_id);
	const attachments = copy.attachments > 0 ? await listAttachments(store.reader, copy.message_id) : [];

	const http = liveDaemon(settings.dataDir)?.http;
	const publicUrl = settings.publicUrl ?? http ?? boundPublicUrl(null, settings.httpListen);
	const make = createMake({
		links: createLinks({keys: await session.secrets(), publicUrl, random: randomBytes}),
		renderer: createRenderer(),
		tokenLifetimeMs: settings.tokenLifetime,
		...feedbackOf(settings),
		clock,
	});
	const made = make(
		makeJob(copy, {
			attachments,
			signing: keyIds.join(','),
			returnPathDomain: returnPathDomain ?? settings.returnPathDomain,
		}),
		{
			variants: variants.map((variant, position) => ({...variant, id: `${copy.version_id}/${position}`})),
			signing: keys.map(importSigningKey),
		},
	);
	if (!made.ok) {
		throw new CliError(
			'data',
			`the mail cannot be made: ${made.unmade.message}`,
			'correct the template and send again',
		);
	}
	return made.made.mail;
}
