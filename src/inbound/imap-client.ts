import {rootCertificates} from 'node:tls';
import type {ImapFlow, ImapFlowError} from 'imapflow';
import type {BounceMailbox} from '../config/urls.ts';
import {withoutAdvice} from '../mail/tls-words.ts';
import {createConceal} from '../net/log-in.ts';
import {longestMail} from './found-mail.ts';

export type ImapMailbox = Extract<BounceMailbox, {kind: 'imap'}>;

const kibibyte = 1024;
const connectMs = 30_000;
const greetingMs = 30_000;
const silenceMs = 2 * 60_000;
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
 * Connects, logs in and opens the folder for reading only: nothing in it changes. Rejects where that fails, see
 * `imapFault`, and where `signal` says to stop. `ca`: PEM of authorities to trust besides the public ones.
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
		socketTimeout: silenceMs,
		maxIdleTime: idleMs,
		maxLineLength: 16 * kibibyte * kibibyte,
		maxLiteralSize: longestMail + 64 * kibibyte,
		maxResponseSize: longestMail + 17 * kibibyte * kibibyte,
	});
	// Whoever waits for a command hears of it there.
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

/** Why a mailbox cannot be read, and how to mend it. */
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
	const words = clean(createConceal(mailbox)(said.find(Boolean) ?? withoutAdvice(error.message)));
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
	return text
		.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')
		.trim()
		.replace(/\.$/, '')
		.slice(0, longestWords);
}
