import {rootCertificates} from 'node:tls';
import type {ImapFlow, ImapFlowError} from 'imapflow';
import type {BounceMailbox} from '../config/parsers.ts';
import {unprintable} from '../kit/text.ts';
import {withoutAdvice} from '../mail/outcome.ts';
import {conceal} from '../net/credentials.ts';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';
import {type Taken, takeAll} from './take-in.ts';

const unsafe = new RegExp(`[${unprintable}]+`, 'gu');

/** How far a mailbox was read, see `mailbox_checkpoints`. */
export type Checkpoint = {
	readonly load: () => Promise<string | null>;
	readonly save: (position: string) => Promise<void>;
};

type Counting = {taken: number; known: number; cut: number};
/** Counts of one reading of a mailbox: mails that are new here, mails that were known, and of both those too large to be read whole. */
export type Round = Readonly<Counting>;

type TakeNewOptions = {
	readonly checkpoint: Checkpoint;
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	/** Stops between two mails. */
	readonly signal: AbortSignal;
};

/** Mails that one command fetches; then the checkpoint moves. */
const mailsAtOnce = 100;

/**
 * Stores what came into the open folder since the last time (RFC 3501 §2.3.1.1: UIDs only ever grow, while UIDVALIDITY is
 * the same; otherwise all is read again, and known mails are recognized). Mails are on stable storage before the checkpoint
 * moves.
 */
export async function takeNewOfFolder(client: ImapFlow, {checkpoint, takeIn, signal}: TakeNewOptions): Promise<Round> {
	const validity = validityOf(client);
	const saved = parsePosition(await checkpoint.load());
	const last = saved?.validity === validity ? saved.uid : 0;
	const round = {taken: 0, known: 0, cut: 0};
	const uids = await uidsAfter(client, last);
	for (let at = 0; at < uids.length && !signal.aborted; at += mailsAtOnce) {
		const some = uids.slice(at, at + mailsAtOnce);
		for await (const {mail, taken} of takeAll(fetchMails(client, some), takeIn)) {
			count(round, mail.found, taken);
		}
		// A lost connection ends a fetch without a word: what was not fetched must not be passed over.
		validityOf(client);
		await checkpoint.save(`${validity}:${some.at(-1)}`);
	}
	return round;
}

/** Counts a mail that is stored. */
export function count(round: Counting, {cut}: FoundMail, {isNew}: Taken): void {
	round[isNew ? 'taken' : 'known']++;
	round.cut += cut ? 1 : 0;
}

/** Throws if the connection, and with it the folder, is lost. */
function validityOf({mailbox}: ImapFlow): string {
	if (mailbox === false) {
		throw new Error('the connection was lost');
	}
	return String(mailbox.uidValidity);
}

async function uidsAfter(client: ImapFlow, last: number): Promise<number[]> {
	const found = await client.search({uid: `${last + 1}:*`}, {uid: true});
	if (!found) {
		throw Object.assign(new Error('the server refuses to search'), {responseStatus: 'NO'});
	}
	// RFC 3501 §6.4.8: `n:*` always names the last mail, also where its UID is below n.
	return found.filter(uid => uid > last).sort((a, b) => a - b);
}

/** Without marking them as seen: `source` is fetched by BODY.PEEK. */
async function* fetchMails(client: ImapFlow, uids: readonly number[]): AsyncGenerator<{readonly found: FoundMail}> {
	const wanted = {size: true, source: {start: 0, maxLength: longestMail}} as const;
	for await (const {source, size} of client.fetch(uids.join(','), wanted, {uid: true})) {
		if (source) {
			yield {found: foundMail('imap', source, Math.max(size ?? 0, source.length))};
		}
	}
}

function parsePosition(text: string | null): {readonly validity: string; readonly uid: number} | null {
	const [, validity, uid] = /^(\d+):(\d+)$/.exec(text ?? '') ?? [];
	return validity === undefined ? null : {validity, uid: Number(uid)};
}

export type ImapMailbox = Extract<BounceMailbox, {kind: 'imap'}>;

const kibibyte = 1024;
const connectMs = 30_000;
const greetingMs = 30_000;
/** A mailbox that sends nothing for this time while it is opened or read hangs. */
export const silenceMs = 60_000;
/** Routers and servers forget a connection that says nothing; it is far below RFC 2177's half hour. */
const idleMs = 4 * 60_000;

/** What a mailbox is called in logs and in the store: its URL without the password. */
export function nameOfMailbox(mailbox: BounceMailbox): string {
	if (mailbox.kind === 'maildir') {
		return `maildir:${mailbox.path}`;
	}
	const {tls, user, host, port, folder} = mailbox;
	const usual = tls === 'implicit' ? 993 : 143;
	const where = `${host.includes(':') ? `[${host}]` : host}${port === usual ? '' : `:${port}`}`;
	return `imap${tls === 'implicit' ? 's' : ''}://${encodeURIComponent(user)}@${where}/${encodeURI(folder)}`;
}

/**
 * Connects, logs in and opens the folder for reading only: nothing in it changes. Rejects if that fails, see `imapFault`,
 * and if `signal` aborts. `ca`: PEM of authorities to trust in addition to the public ones.
 */
export async function openFolder(mailbox: ImapMailbox, ca: string | null, signal?: AbortSignal): Promise<ImapFlow> {
	const {ImapFlow} = await import('imapflow');
	const {host, port, tls, user, password, folder} = mailbox;
	const client = new ImapFlow({
		host,
		port,
		secure: tls === 'implicit',
		...(tls === 'implicit' ? {} : {doSTARTTLS: tls === 'starttls'}),
		tls: {minVersion: 'TLSv1.2', ...(ca === null ? {} : {ca: [...rootCertificates, ca]})},
		auth: {user, pass: password},
		clientInfo: {name: 'mailctl'},
		logger: false,
		disableAutoIdle: true,
		disableCompression: true,
		connectionTimeout: connectMs,
		greetingTimeout: greetingMs,
		// Longer: the reader gives up first, and says why.
		socketTimeout: 2 * silenceMs,
		maxIdleTime: idleMs,
		maxLineLength: 16 * kibibyte * kibibyte,
		maxLiteralSize: longestMail + 64 * kibibyte,
		maxResponseSize: longestMail + 17 * kibibyte * kibibyte,
	});
	// The command under way rejects with it.
	client.on('error', () => undefined);
	const close = () => client.close();
	signal?.addEventListener('abort', close);
	try {
		await client.connect();
		await client.mailboxOpen(folder, {readOnly: true});
		return client;
	} catch (error) {
		close();
		throw error;
	} finally {
		signal?.removeEventListener('abort', close);
	}
}

/** Why a mailbox cannot be read, and the fix. */
export type MailboxFault = {readonly reason: string; readonly fix: string};

const untrusted = /^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA)/;

/** What an error of the connection says, without the password, in the operator's words. */
export function imapFault(thrown: unknown, mailbox: ImapMailbox): MailboxFault {
	const {host, port, folder} = mailbox;
	const error = thrown as ImapFlowError;
	const where = `${host}:${port}`;
	const code = error.code ?? '';
	const said = [error.responseText ?? error.reason, typeof error.response === 'string' ? error.response : undefined];
	// Some servers repeat what they refuse.
	const words = clean(conceal(mailbox, said.find(Boolean) ?? withoutAdvice(error.message)));
	if (error.authenticationFailed) {
		return {
			reason: `${where} refuses the log-in: ${words}`,
			fix: 'correct user and password in MAILCTL_BOUNCE_MAILBOX (percent-encoded)',
		};
	}
	if (untrusted.test(code)) {
		return {
			reason: `the certificate of ${where} is not trusted: ${words}`,
			fix: 'use the name that it is made out for, or add its CA by MAILCTL_CA_FILE',
		};
	}
	if (error.tlsFailed || /^(ERR_SSL|EPROTO|UPGRADE_TIMEOUT|ERR_TLS)/.test(code)) {
		return {
			reason: `TLS with ${where} fails: ${words}`,
			fix: 'use imaps:// for TLS from the first byte (port 993), imap:// for STARTTLS (143)',
		};
	}
	if (error.responseStatus || error.mailboxMissing) {
		return {
			reason: `the folder ${folder} of ${where} cannot be read: ${words}`,
			fix: 'name a folder of this user in MAILCTL_BOUNCE_MAILBOX',
		};
	}
	return {
		reason: `${where} does not answer: ${words}${code === '' || words.includes(code) ? '' : ` (${code})`}`,
		fix: 'check host and port in MAILCTL_BOUNCE_MAILBOX, and the firewall',
	};
}

const longestWords = 300;

function clean(text: string): string {
	return text.replace(unsafe, ' ').trim().replace(/\.$/, '').slice(0, longestWords);
}
