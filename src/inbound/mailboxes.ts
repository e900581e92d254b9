import {type FSWatcher, watch as watchFolder} from 'node:fs';
import {join} from 'node:path';
import {rootCertificates} from 'node:tls';
import type {ImapFlow, ImapFlowError} from 'imapflow';
import type {BounceMailbox} from '../config/parsers.ts';
import {inTime} from '../kit/clock.ts';
import {unprintable} from '../kit/text.ts';
import {withoutAdvice} from '../mail/outcome.ts';
import {conceal} from '../net/relay-url.ts';
import {type Accepted, acceptAll} from './accept-inbound.ts';
import {type Checkpoint, count, type FailedCommand, FolderReader, newRound, type Round} from './imap-folder.ts';
import {type FoundMail, isMaildir, maxMailBytes, moveToCur, newMails} from './mail-files.ts';

type MailboxObserver = {
	/** Reports that the mailbox was read. After it hung, `isWorking` is false until it has responded after a pause. */
	readonly mailboxRead: (round: Round, isWorking: boolean) => void;
	/** Reports that the mailbox cannot be read. The next attempt is made after at least this time, in milliseconds. */
	readonly mailboxFailed: (error: unknown, waitMs: number) => void;
	/** Reports that a message of a Maildir cannot be read. It stays where it is. */
	readonly mailUnreadable: (path: string, error: unknown) => void;
	/** Reports once that the system cannot watch the folder, so that new mail waits for the interval. */
	readonly unwatched: (error: unknown) => void;
};

type MailboxOptions = {
	readonly acceptMessage: (found: FoundMail) => Promise<Accepted>;
	readonly checkpoint: Checkpoint;
	/** PEM of authorities to trust in addition to the public ones. */
	readonly ca: string | null;
	readonly observer: Pick<MailboxObserver, 'mailUnreadable' | 'unwatched'>;
	readonly watch?: typeof watchFolder;
};

/** Returns the mailbox of MAILCTL_BOUNCE_MAILBOX. */
export function createMailbox(mailbox: BounceMailbox, options: MailboxOptions): Mailbox {
	return mailbox.kind === 'imap' ? imapMailbox(mailbox, options) : maildirMailbox(mailbox.path, options);
}

/** Explains why a mailbox cannot be read and how to fix it. Never reveals the password. */
export function mailboxProblem(error: unknown, mailbox: BounceMailbox): MailboxProblem {
	return mailbox.kind === 'imap' ? imapProblem(error, mailbox) : maildirProblem(error, mailbox.path);
}

function withProgress(accept: MailboxOptions['acceptMessage'], onProgress: () => void): typeof accept {
	return async found => {
		onProgress();
		return await accept(found).finally(onProgress);
	};
}

const progressCheckMs = 1000;

function imapMailbox(mailbox: ImapMailbox, {acceptMessage, checkpoint, ca}: MailboxOptions): Mailbox {
	const reader = new FolderReader();
	return {
		async open(wake, signal) {
			const client = await openFolder(mailbox, ca, signal);
			client.on('exists', wake);
			client.on('close', wake);
			return {
				async takeNew(stop, onProgress) {
					// A large message may take long over a slow connection, so any received data counts as progress.
					let received = 0;
					const watch = setInterval(() => {
						const total = client.stats().received;
						if (total > received) {
							onProgress();
						}
						received = total;
					}, progressCheckMs);
					try {
						return await reader.takeNew(client, {
							checkpoint,
							acceptMessage: withProgress(acceptMessage, onProgress),
							signal: stop,
						});
					} finally {
						clearInterval(watch);
					}
				},
				// Idling ends with the next command, which also reveals a lost connection.
				listen: () => void client.idle().catch(() => undefined),
				explain: error => reader.explain(error),
				close: () => client.close(),
			};
		},
	};
}

/** Errors of the folder itself, which are reported when it is read. */
const folderErrors: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM']);

function maildirMailbox(folder: string, {acceptMessage, observer, watch = watchFolder}: MailboxOptions): Mailbox {
	let isReported = false;

	function unwatched(error: unknown): void {
		if (!isReported && !folderErrors.has((error as NodeJS.ErrnoException).code)) {
			isReported = true;
			observer.unwatched(error);
		}
	}

	/** Returns `null` if the system cannot watch this folder. Then new mail waits for the interval. */
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
				throw new Error('it does not contain the folders new and cur');
			}
			const watching = watchNew(wake);
			return {
				async takeNew(signal, onProgress) {
					const round = newRound();
					for await (const {mail, accepted} of acceptAll(
						newMails(folder, signal, observer),
						withProgress(acceptMessage, onProgress),
					)) {
						await moveToCur(folder, mail.name);
						count(round, mail.found, accepted);
					}
					return round;
				},
				listen: () => undefined,
				explain: error => error,
				close: () => watching?.close(),
			};
		},
	};
}

function maildirProblem(error: unknown, folder: string): MailboxProblem {
	const {code, message} = error as NodeJS.ErrnoException;
	return code === 'EACCES' || code === 'EPERM' || code === 'EROFS'
		? {
				reason: `the Maildir ${folder} cannot be used: ${message}`,
				fix: `give the daemon's user read and write access to ${folder}/new and ${folder}/cur`,
			}
		: {
				reason: `${folder} is not a Maildir: ${message}`,
				fix: 'set MAILCTL_BOUNCE_MAILBOX to a folder with new, cur and tmp',
			};
}

/** A mailbox that can be opened. `wake` is called when there may be new messages, and when the connection is lost. */
type Mailbox = {
	readonly open: (wake: () => void, signal: AbortSignal) => Promise<OpenMailbox>;
};

type OpenMailbox = {
	/** Stores new messages, and calls `onProgress` whenever data arrives. Rejects if the mailbox or the store fails. */
	readonly takeNew: (signal: AbortSignal, onProgress: () => void) => Promise<Round>;
	/** Starts listening for new messages. */
	readonly listen: () => void;
	/** Adds to an error of `takeNew` what was being read. */
	readonly explain: (error: unknown) => unknown;
	/** Closes the mailbox at once, so that pending operations fail. */
	readonly close: () => void;
};

type FollowOptions = {
	readonly mailbox: Mailbox;
	/** The time between two checks, in milliseconds. */
	readonly intervalMs: number;
	/** A mailbox hangs if it sends nothing for this time while it is opened or read, in milliseconds. */
	readonly waitLimitMs: number;
	readonly observer: Pick<MailboxObserver, 'mailboxRead' | 'mailboxFailed'>;
};

/** The waits after failures start at one second and double each time. */
const [minWaitMs, maxWaitMs] = [1000, 5 * 60_000];
/** How often in a row a working connection may be lost without a report. */
const maxSilentLosses = 3;
/** Servers lock out users after repeated login failures. */
const isLockedOut = (error: unknown) => (error as {authenticationFailed?: boolean}).authenticationFailed === true;

class HangsError extends Error {
	override readonly name = 'HangsError';
	readonly code = 'ETIMEDOUT';
}

/** Returns the result of work with a mail server. Rejects if the server sends nothing for the given time. */
export function withinLimit<T>(limitMs: number, work: (onProgress: () => void) => Promise<T>): Promise<T> {
	return inTime(limitMs, () => new HangsError(`no data for ${limitMs / 1000} s`), work);
}

/**
 * Follows a mailbox until stopped: reads what is new, waits until woken or until the interval is over, and reconnects
 * if the connection was lost. A working connection that is lost is not yet a failure, because mail servers are
 * restarted. One that hangs is.
 */
export class MailboxFollower {
	readonly #options: FollowOptions;
	readonly #stopping = new AbortController();
	readonly #signal = this.#stopping.signal;
	readonly #running: Promise<void>;
	#opened: OpenMailbox | null = null;
	#isAwake = false;
	#hasHung = false;
	#wakeUp: () => void = () => undefined;

	constructor(options: FollowOptions) {
		this.#options = options;
		this.#running = this.#run();
	}

	/** Resolves when all activity has stopped. */
	async stop(): Promise<void> {
		this.#stopping.abort();
		this.#opened?.close();
		this.#wake();
		await this.#running;
	}

	#wake(): void {
		this.#isAwake = true;
		this.#wakeUp();
	}

	/** Resolves after the time, or at `wake` and `stop`. */
	#pause(milliseconds: number): Promise<void> {
		return new Promise(resolve => {
			const done = () => {
				clearTimeout(timer);
				this.#wakeUp = () => undefined;
				resolve();
			};
			const timer = setTimeout(done, milliseconds);
			this.#wakeUp = done;
			if (this.#isAwake || this.#signal.aborted) {
				done();
			}
		});
	}

	/** Aborts an attempt that hangs, which may be in the middle of a login. */
	async #open(wake: () => void): Promise<OpenMailbox> {
		const {mailbox, waitLimitMs} = this.#options;
		const giveUp = new AbortController();
		const signal = AbortSignal.any([this.#signal, giveUp.signal]);
		try {
			return await withinLimit(waitLimitMs, () => mailbox.open(wake, signal));
		} catch (error) {
			giveUp.abort();
			throw error;
		}
	}

	/** Reads until the connection is lost, and then rejects. Counts how often the mailbox was read. */
	async #read(reads: {count: number}): Promise<void> {
		const {intervalMs, waitLimitMs, observer} = this.#options;
		let isLost = false;
		const current = await this.#open(() => isLost || this.#wake());
		this.#opened = current;
		try {
			while (!this.#signal.aborted) {
				this.#isAwake = false;
				const round = await withinLimit(waitLimitMs, onProgress =>
					current.takeNew(this.#signal, onProgress),
				).catch((error: unknown) => {
					throw current.explain(error);
				});
				reads.count++;
				this.#hasHung &&= reads.count === 1;
				observer.mailboxRead(round, !this.#hasHung);
				current.listen();
				await this.#pause(intervalMs);
			}
		} finally {
			isLost = true;
			current.close();
			this.#opened = null;
		}
	}

	async #run(): Promise<void> {
		let failures = 0;
		while (!this.#signal.aborted) {
			const reads = {count: 0};
			try {
				await this.#read(reads);
			} catch (error) {
				if (this.#signal.aborted) {
					return;
				}
				// A connection that is lost immediately each time does not count as working.
				failures = reads.count > 1 ? 0 : failures;
				const waitMs = isLockedOut(error) ? maxWaitMs : Math.min(minWaitMs * 2 ** failures, maxWaitMs);
				failures++;
				this.#hasHung ||= error instanceof HangsError;
				if (reads.count === 0 || this.#hasHung || failures > maxSilentLosses) {
					this.#options.observer.mailboxFailed(error, waitMs);
				}
				this.#isAwake = false;
				await this.#pause(waitMs);
			}
		}
	}
}

const unsafe = new RegExp(`[${unprintable}]+`, 'gu');

export type ImapMailbox = Extract<BounceMailbox, {kind: 'imap'}>;

const kibibyte = 1024;
const connectMs = 30_000;
const greetingMs = 30_000;
/** The default for how long a mailbox may send nothing while it is opened or read. */
export const silenceMs = 60_000;
/** Routers and servers drop silent connections, so this is far below RFC 2177's half hour. */
const idleMs = 4 * 60_000;

/** Returns a mailbox's name in logs and in the store: its URL without the password. */
export function nameOfMailbox(mailbox: BounceMailbox): string {
	if (mailbox.kind === 'maildir') {
		return `maildir:${mailbox.path}`;
	}
	const {tls, user, host, port, folder} = mailbox;
	const defaultPort = tls === 'implicit' ? 993 : 143;
	const address = `${host.includes(':') ? `[${host}]` : host}${port === defaultPort ? '' : `:${port}`}`;
	return `imap${tls === 'implicit' ? 's' : ''}://${encodeURIComponent(user)}@${address}/${encodeURI(folder)}`;
}

/**
 * Connects, logs in, and opens the folder read-only. Rejects if that fails (see `imapProblem`) or if `signal` aborts.
 * `ca` is the PEM of authorities to trust in addition to the public ones.
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
		// Longer than `silenceMs`, so that the reader gives up first and says why.
		socketTimeout: 2 * silenceMs,
		maxIdleTime: idleMs,
		maxLineLength: 16 * kibibyte * kibibyte,
		maxLiteralSize: maxMailBytes + 64 * kibibyte,
		maxResponseSize: maxMailBytes + 17 * kibibyte * kibibyte,
	});
	// The pending command rejects with the same error.
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

/** Why a mailbox cannot be read, and how to fix it. */
type MailboxProblem = {readonly reason: string; readonly fix: string};

const untrusted = /^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA)/;

/** Explains a connection's error to the operator, without the password. */
export function imapProblem(thrown: unknown, mailbox: ImapMailbox): MailboxProblem {
	const {host, port, folder} = mailbox;
	const error = thrown as ImapFlowError & FailedCommand;
	const server = `${host}:${port}`;
	const code = error.code ?? '';
	const texts = [error.responseText ?? error.reason, typeof error.response === 'string' ? error.response : undefined];
	// Some servers echo the command that they refuse, with the password.
	const message = clean(conceal(mailbox, texts.find(Boolean) ?? withoutAdvice(error.message)));
	if (error.authenticationFailed) {
		return {
			reason: `${server} rejected the login: ${message}`,
			fix: 'correct the user and password in MAILCTL_BOUNCE_MAILBOX (percent-encoded)',
		};
	}
	if (untrusted.test(code)) {
		return {
			reason: `the certificate of ${server} is not trusted: ${message}`,
			fix: 'use a host name of the certificate, or add its CA with MAILCTL_CA_FILE',
		};
	}
	if (error.tlsFailed || /^(ERR_SSL|EPROTO|UPGRADE_TIMEOUT|ERR_TLS)/.test(code)) {
		return {
			reason: `TLS with ${server} failed: ${message}`,
			fix: 'use imaps:// for implicit TLS (port 993), imap:// for STARTTLS (143)',
		};
	}
	if (error.fetching !== undefined) {
		return fetchProblem(error, error.fetching, {server, folder, message});
	}
	if (error.searching) {
		return {
			reason: `the folder ${folder} of ${server} cannot be searched: ${message}`,
			fix: "check the mail server's log: its index of the folder may be damaged",
		};
	}
	if (error.responseStatus || error.mailboxMissing) {
		return {
			reason: `the folder ${folder} of ${server} cannot be read: ${message}`,
			fix: 'set MAILCTL_BOUNCE_MAILBOX to a folder of this user',
		};
	}
	return {
		reason: `${server} does not respond: ${message}${code === '' || message.includes(code) ? '' : ` (${code})`}`,
		fix: 'check host and port in MAILCTL_BOUNCE_MAILBOX, and the firewall',
	};
}

/** Explains a fetch error. The account and the network work, and perhaps other messages do, too. */
function fetchProblem(
	{responseStatus}: ImapFlowError,
	uids: readonly number[],
	{server, folder, message}: Readonly<Record<'server' | 'folder' | 'message', string>>,
): MailboxProblem {
	const [first] = uids;
	const messages = uids.length === 1 ? `message UID ${first}` : `messages UID ${first} to ${uids.at(-1)}`;
	return {
		reason: responseStatus
			? `${server} does not return ${messages} of ${folder}: ${message}`
			: `${server} closed the connection while returning ${messages} of ${folder}: ${message}`,
		fix:
			uids.length === 1
				? "open the message with a mail program and check the mail server's log; delete the message if neither helps"
				: "check the mail server's log; the messages are now fetched one by one",
	};
}

const maxMessageLength = 300;

function clean(text: string): string {
	return text.replace(unsafe, ' ').trim().replace(/\.$/, '').slice(0, maxMessageLength);
}
