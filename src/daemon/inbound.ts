import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {setTimeout} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import {createResolver} from '../dns/resolver.ts';
import {askTogether, createJudgeAddressee, createOurDomains} from '../inbound/addressee.ts';
import {createAllowances, type MailShare} from '../inbound/allowances.ts';
import {followMailbox} from '../inbound/follow.ts';
import type {FoundMail} from '../inbound/found-mail.ts';
import {nameOfMailbox, silenceMs} from '../inbound/imap.ts';
import type {Listener, ReceivedMail, RefusalReason} from '../inbound/listener.ts';
import {mailboxFault, mailboxOf} from '../inbound/mailboxes.ts';
import {createReader} from '../inbound/reader.ts';
import {createReading} from '../inbound/reading.ts';
import {createRecord} from '../inbound/record.ts';
import {readTls} from '../inbound/sessions.ts';
import {createTakeIn, shortKey, type Taken} from '../inbound/take-in.ts';
import {createTrustedReporter} from '../inbound/trusted-reporter.ts';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import {threadLimits} from '../kit/memory.ts';
import {storeTime} from '../kit/time.ts';
import {processCpu} from '../kit/work-limit.ts';
import {createLinks} from '../links/links.ts';
import type {MailLog} from '../log/mail-events.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {type CameIn, type Reading, reportTokenMs} from '../mail/report.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {findRecipientAddresses, listReturnPathHosts, readCheckpoint, saveCheckpoint} from '../store/inbound-mails.ts';
import type {MasterKeys} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {ReaderData} from '../threads/reader.ts';
import type {Metrics} from './metrics.ts';
import {createThrottle} from './throttle.ts';

export type InboundOptions = {
	readonly settings: Settings;
	readonly store: Store;
	readonly keys: MasterKeys;
	/** What this daemon takes in bears this id. */
	readonly boot: string;
	/** Where events of what came in go. */
	readonly eventWriter: EventWriter;
	/** The settings as they are now. */
	readonly retentionDays: () => number;
	readonly bounceRules: () => readonly BounceRule[];
	/** Whether there is room for new mail. */
	readonly hasRoom: () => boolean;
	readonly clock: Clock;
	readonly metrics: Metrics;
	readonly mailLog: MailLog;
	readonly onStoreError: (error: unknown) => void;
	/** The thread that reads ended by itself and is replaced. */
	readonly onCrash: (reason: string) => void;
};

const readLimitMs = 2000;
/** One query for the key of a reporter. */
const dnsTimeoutMs = 5000;
/** How often the same refusal of the same client is logged. */
const refusalEveryMs = 60_000;
/** Of so many mails that were not read yet it is known what they took of the allowances; the oldest are forgotten first. */
const mostShares = 10_000;
/** So long a client that has used up its allowance waits for its mails to be read. */
const longestWaitMs = 10_000;

/** All that comes in by mail: the listener, and the loop that reads what was taken in. */
export function createInbound(options: InboundOptions) {
	const {settings, store, clock, metrics, mailLog, boot, onStoreError} = options;
	const {returnPathDomain, feedbackAddress, hostname} = settings;
	const links = createLinks({keys: options.keys, publicUrl: '', random: randomBytes});
	const domains = createOurDomains([returnPathDomain, hostname], () => listReturnPathHosts(store.reader));
	const takeIn = createTakeIn({writer: store.writer, node: boot, clock});
	const recordReading = createRecord({
		writer: store.writer,
		links,
		eventWriter: options.eventWriter,
		retentionDays: options.retentionDays,
		trustedReporter: createTrustedReporter({
			reporters: settings.feedbackReporters,
			resolver: createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock}),
		}),
		clock,
	});
	const reader = createReader({
		limitMs: readLimitMs,
		clock,
		cpu: processCpu,
		onCrash: options.onCrash,
		spawn: shared =>
			new Worker(new URL('../threads/reader.js', import.meta.url), {
				workerData: {shared, bounceRules: options.bounceRules()} satisfies ReaderData,
				resourceLimits: threadLimits.reader,
			}),
	});
	const reading = createReading({
		store,
		node: boot,
		alone: !store.dialect.isShared,
		read: reader.read,
		async record(cameIn, read, raw) {
			told(cameIn, read, await recordReading(cameIn, read, raw));
		},
		clock,
		onUnreadable(cameIn, error) {
			metrics.inboundMail(cameIn.source, 'unread');
			metrics.inboundKept('unread');
			mailLog.inboundUnreadable({inbound: shortKey(cameIn.id), source: cameIn.source}, error);
		},
		onStoreError,
	});
	const shares = new LRUCache<string, MailShare>(atMost(mostShares));
	const tellsOfRefusal = createThrottle(refusalEveryMs, clock);
	let listener: Listener | null = null;
	let mailbox: MailboxPolling = null;

	function onMail({client, roles, size, tls, taken, share}: ReceivedMail): void {
		if (taken === null) {
			metrics.inboundMail('smtp', 'dropped');
		} else {
			if (taken.isNew) {
				shares.set(taken.id, share);
			}
			reading.wake();
		}
		const inbound = taken && shortKey(taken.id);
		mailLog.inboundTaken({inbound, client, roles, size, tls, repeated: taken?.isNew === false});
	}

	function told(cameIn: CameIn, {kind, reports, fault}: Reading, {about, kept}: ReportEffect): void {
		const inbound = shortKey(cameIn.id);
		if (about.length > 0 && kept === null) {
			shares.get(cameIn.id)?.prove(about.map(({recipientId}) => recipientId));
		}
		shares.delete(cameIn.id);
		metrics.inboundMail(cameIn.source, kind);
		mailLog.inboundRead({inbound, source: cameIn.source, kind, reports: reports.length, fault, kept});
		if (kept !== null) {
			metrics.inboundKept(kept);
		}
		for (const {messageId, recipient, workspaceId: workspace, action, report, event} of about.filter(
			one => one.isNew,
		)) {
			metrics.reported(kind, action, event);
			const {host: mx = null, code = null, status: enhanced = null, reason: reply = null} = report ?? {};
			const said = {mx, code, enhanced, reply, category: report?.category ?? null};
			mailLog.reported({messageId, recipient, workspace}, {...said, event, inbound, action});
		}
	}

	/** At most a while: a client may come again. */
	async function untilRead(): Promise<void> {
		if (shares.size > 0) {
			await Promise.race([reading.idle(), setTimeout(longestWaitMs, undefined, {ref: false})]);
		}
	}

	/** Of the mailbox. */
	async function take({raw, source, mailFrom}: FoundMail): Promise<Taken> {
		const taken = await takeIn({raw, source, mailFrom, rcptTo: []});
		reading.wake();
		return taken;
	}

	function refused(reason: RefusalReason, client: string): void {
		metrics.inboundRefused(reason);
		// Who is refused once is refused often.
		if (tellsOfRefusal(`${reason} ${client}`)) {
			mailLog.inboundRefused({reason, client});
		}
	}

	return {
		/** Resolves with the listener's address; null: it is off. Rejects where it cannot listen. */
		async start(): Promise<string | null> {
			reading.wake();
			mailbox = startMailboxPolling({
				settings,
				store,
				takeIn: take,
				hasRoom: options.hasRoom,
				clock,
				mailLog,
				onStoreError,
			});
			if (settings.inboundListen === null) {
				return null;
			}
			const {createListener} = await import('../inbound/listener.ts');
			listener = createListener({
				hostname,
				ourNames: [hostname, returnPathDomain],
				tls: readTls(settings.inboundTlsCert, settings.inboundTlsKey),
				judge: createJudgeAddressee({
					links,
					domains,
					returnPathDomain,
					feedbackAddress,
					addressOf: askTogether(ids => findRecipientAddresses(store.reader, ids)),
					tokenLifetimeMs: () => reportTokenMs(options.retentionDays()),
					clock,
				}),
				allowances: createAllowances({each: settings.inboundAllowance, untilRead, clock}),
				takeIn,
				hasDisk: options.hasRoom,
				onMail: onMail,
				onRefused: refused,
				onStoreError,
			});
			const {address, port} = await listener.listen(settings.inboundListen);
			return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
		},
		sessions: (): number | null => listener?.sessions() ?? null,
		/** How the mailbox is doing; null: there is none. */
		mailbox: () => mailbox?.figures() ?? null,
		/** What is remembered of the store is read again; others may have taken mails in. */
		forget(): void {
			domains.forget();
			reading.wake();
		},
		/** Refusals are judged by the rules as they are now. */
		renewBounceRules(): void {
			reader.classifyBy(options.bounceRules());
		},
		/** The certificate's files are read again; throws where they cannot be, then the one before still holds. */
		reload(): void {
			const tls = readTls(settings.inboundTlsCert, settings.inboundTlsKey);
			if (tls !== null) {
				listener?.useTls(tls);
			}
		},
		async drain(): Promise<void> {
			await Promise.all([listener?.close(), mailbox?.stop()]);
			await reading.stop();
			await reader.stop();
		},
	};
}

export type Inbound = ReturnType<typeof createInbound>;

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
