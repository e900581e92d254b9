import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {setTimeout} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {extraCa} from '../config/settings.ts';
import {createResolver} from '../dns/resolver.ts';
import {askTogether, createJudgeAddressee, OurDomains} from '../inbound/addressee.ts';
import {Allowances, type MailShare} from '../inbound/allowances.ts';
import type {InboundListener, ReceivedMail} from '../inbound/inbound-listener.ts';
import type {FoundMail} from '../inbound/mail-files.ts';
import {followMailbox, mailboxFault, mailboxOf, nameOfMailbox, type Round, silenceMs} from '../inbound/mailboxes.ts';
import {createReading, createRecord, createTrustedReporter, MailReader} from '../inbound/reading.ts';
import {readTls} from '../inbound/smtp-listener.ts';
import {createTakeIn, type Taken} from '../inbound/take-in.ts';
import {atMost} from '../kit/collections.ts';
import {threadLimits} from '../kit/memory.ts';
import {storeTime} from '../kit/time.ts';
import {processCpu} from '../kit/work-limit.ts';
import {createLinks} from '../links/links.ts';
import {type CameIn, reportTokenMs} from '../mail/report.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {findRecipientAddresses, listReturnPathHosts, readCheckpoint, saveCheckpoint} from '../store/inbound-mails.ts';
import type {ReaderData} from '../threads/reader.ts';
import type {Context} from './context.ts';
import type {MailboxFigures} from './metrics.ts';

const readLimitMs = 2000;
/** One query for the key of a reporter. */
const dnsTimeoutMs = 5000;
/** The shares of allowances are known of at most this many unread mails; the oldest are dropped first. */
const mostShares = 10_000;
/** A client that has used up its allowance waits at most this long for its mails to be read. */
const longestWaitMs = 10_000;

/** All that comes in by mail: the listener, and the loop that reads what was taken in. */
export function createInbound(context: Context) {
	const {settings, live, store, clock, boot, observer} = context;
	const {returnPathDomain, feedbackAddress, hostname} = settings;
	const links = createLinks({keys: context.keys, publicUrl: '', random: randomBytes});
	const domains = new OurDomains([returnPathDomain, hostname], () => listReturnPathHosts(store.reader));
	const takeIn = createTakeIn({writer: store.writer, node: boot, clock});
	const recordReading = createRecord({
		writer: store.writer,
		links,
		eventWriter: context.eventWriter,
		retentionDays: () => live().retentionDays,
		trustedReporter: createTrustedReporter({
			reporters: settings.feedbackReporters,
			resolver: createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock}),
		}),
		clock,
	});
	const reader = new MailReader({
		limitMs: readLimitMs,
		clock,
		cpu: processCpu,
		observer,
		spawn: shared =>
			new Worker(new URL('../threads/reader.js', import.meta.url), {
				workerData: {shared, bounceRules: context.bounceRules()} satisfies ReaderData,
				resourceLimits: threadLimits.reader,
			}),
	});
	const reading = createReading({
		store,
		node: boot,
		alone: !store.dialect.isShared,
		read: raw => reader.read(raw),
		async record(cameIn, read, raw) {
			const effect = await recordReading(cameIn, read, raw);
			useShare(cameIn, effect);
			observer.inboundRead(cameIn, read, effect);
		},
		clock,
		observer,
	});
	const shares = new LRUCache<string, MailShare>(atMost(mostShares));
	let listener: InboundListener | null = null;
	let mailbox: MailboxPolling = null;

	function inboundTaken(mail: ReceivedMail): void {
		const {taken, share} = mail;
		if (taken !== null) {
			if (taken.isNew) {
				shares.set(taken.id, share);
			}
			reading.wake();
		}
		observer.inboundTaken(mail);
	}

	/** A mail about a recipient of ours costs its client no allowance. */
	function useShare({id}: CameIn, {about, kept}: ReportEffect): void {
		if (about.length > 0 && kept === null) {
			shares.get(id)?.prove(about.map(({recipientId}) => recipientId));
		}
		shares.delete(id);
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

	return {
		/** Resolves with the listener's address; null: it is off. Rejects where it cannot listen. */
		async start(): Promise<string | null> {
			reading.wake();
			mailbox = startMailboxPolling(context, take);
			if (settings.inboundListen === null) {
				return null;
			}
			const {InboundListener} = await import('../inbound/inbound-listener.ts');
			listener = new InboundListener({
				hostname,
				ourNames: [hostname, returnPathDomain],
				tls: readTls(settings.inboundTlsCert, settings.inboundTlsKey),
				judge: createJudgeAddressee({
					links,
					domains,
					returnPathDomain,
					feedbackAddress,
					addressOf: askTogether(ids => findRecipientAddresses(store.reader, ids)),
					tokenLifetimeMs: () => reportTokenMs(live().retentionDays),
					clock,
				}),
				allowances: new Allowances({each: settings.inboundAllowance, untilRead, clock}),
				takeIn,
				hasDisk: context.hasSpace,
				observer: {...observer, inboundTaken},
			});
			const {address, port} = await listener.listen(settings.inboundListen);
			return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
		},
		sessions: (): number | null => listener?.sessions() ?? null,
		/** How the mailbox is doing; null: no mailbox. */
		mailbox: () => mailbox?.figures() ?? null,
		/** What is remembered of the store is read again; others may have taken mails in. */
		forget(): void {
			domains.forget();
			reading.wake();
		},
		/** Refusals are judged by the rules as they are now. */
		renewBounceRules(): void {
			reader.classifyBy(context.bounceRules());
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

/** A server has at least this long to answer, also with a shorter interval. */
const shortestPatienceMs = 10_000;

/** Follows the mailbox of MAILCTL_BOUNCE_MAILBOX from now on; null where none is set. */
function startMailboxPolling(
	{settings, store, hasSpace, clock, observer: {mailLog, storeFailed}}: Context,
	takeIn: (found: FoundMail) => Promise<Taken>,
) {
	const {bounceMailbox: mailbox, bounceMailboxInterval} = settings;
	if (mailbox === null) {
		return null;
	}
	const name = nameOfMailbox(mailbox);
	const figures = {up: null as boolean | null, taken: 0, known: 0, failures: 0};
	let reason = '';
	const ofStore = new WeakSet();

	/** What fails here is no fault of the mailbox. */
	async function inStore<Result>(work: Promise<Result>): Promise<Result> {
		return await work.catch(error => {
			ofStore.add(error);
			storeFailed(error);
			throw error;
		});
	}

	function mailboxRead({taken, known, cut}: Round, works: boolean): void {
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
	}

	const mailboxFailed = (error: unknown, waitMs: number): void => {
		if (ofStore.has(error as object)) {
			return;
		}
		const fault = mailboxFault(error, mailbox);
		figures.up = false;
		figures.failures++;
		// Once, not at every try.
		if (fault.reason !== reason) {
			reason = fault.reason;
			mailLog.mailboxFailed({mailbox: name, ...fault, retryMs: waitMs});
		}
	};

	const following = followMailbox({
		mailbox: mailboxOf(mailbox, {
			async takeIn(found) {
				if (!hasSpace()) {
					const full = new Error('The disk has less free space than MAILCTL_MIN_FREE_DISK.');
					ofStore.add(full); // Logged already, and no fault of the mailbox.
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
			observer: {
				mailUnreadable: (path, error) => mailLog.mailUnreadable({mailbox: name, path}, error),
				unwatched: error => mailLog.mailboxUnwatched({mailbox: name}, error),
			},
		}),
		intervalMs: bounceMailboxInterval,
		patienceMs: Math.min(Math.max(bounceMailboxInterval, shortestPatienceMs), silenceMs),
		observer: {mailboxRead, mailboxFailed},
	});
	return {
		figures: (): MailboxFigures => ({...figures}),
		/** Resolves when nothing of it is under way any more. */
		stop: following.stop,
	};
}

type MailboxPolling = ReturnType<typeof startMailboxPolling>;
