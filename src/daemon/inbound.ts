import {randomBytes} from 'node:crypto';
import {setTimeout} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {createLinks, type Links} from '../compose/links/links.ts';
import {linkBase} from '../config/derive.ts';
import type {BounceMailbox} from '../config/parsers.ts';
import {extraCa} from '../config/settings.ts';
import {type Accepted, type AcceptInbound, acceptInbound} from '../inbound/accept-inbound.ts';
import {batchLookups, judgeAddressee, OurDomains} from '../inbound/addressee.ts';
import {askDns, type DnsLookups} from '../inbound/dns-answers.ts';
import type {Round, Skipped} from '../inbound/imap-folder.ts';
import type {InboundListener, ReceivedMail} from '../inbound/inbound-listener.ts';
import type {FoundMail} from '../inbound/mail-files.ts';
import {MailReader, type UnreadableError, unreadable} from '../inbound/mail-reader.ts';
import {createMailbox, MailboxFollower, mailboxProblem, nameOfMailbox, silenceMs} from '../inbound/mailboxes.ts';
import {ReadingLoop, recordReading} from '../inbound/reading.ts';
import {toReceived} from '../inbound/received.ts';
import {atMost} from '../kit/collections.ts';
import {threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {storeTime} from '../kit/time.ts';
import {processCpu} from '../kit/work-limit.ts';
import {isReserved} from '../mail/address.ts';
import {createPastIds} from '../mail/ids.ts';
import {
	type Envelope,
	precedence,
	type Reading,
	type ReadingTurn,
	reportTokenMs,
	type StoredInbound,
} from '../mail/report.ts';
import {Allowances, type MailShare} from '../net/allowances.ts';
import type {DnsAnswers, Resolver} from '../net/dns.ts';
import {createResolver} from '../net/resolver.ts';
import {readTls, type Tls} from '../net/smtp-listener.ts';
import {createReportWrite, type ReportEffect} from '../outcome/reports.ts';
import {findRecipientAddresses, listReturnPathHosts} from '../resources/received/inbound-store.ts';
import {readCheckpoint, saveCheckpoint} from '../resources/received/mailbox-store.ts';
import {findInboxes, listInboundDomains} from '../resources/received/store.ts';
import {hostPort} from './check-ports.ts';
import type {Context} from './context.ts';
import type {MailboxFigures} from './metrics.ts';
import type {ReaderData} from './threads/reader.ts';

const readLimitMs = 2000;
/** Less than the limit for all queries of a message, so that a name that does not respond is recognized. */
const dnsTimeoutMs = 4000;
/** How many octets of a message are searched for its header. */
const headBytes = 64 * 1024;
/** How many unread messages have their allowance shares remembered. The oldest are dropped first. */
const maxShares = 10_000;
/** How long a client that has used up its allowance waits for its messages to be read. */
const maxWaitMs = 10_000;

/** Everything that arrives by mail: the listener, the mailbox, and the loops that read what was received. */
export class Inbound {
	readonly #context: Context;
	readonly #links: Links;
	readonly #domains: OurDomains;
	/** One reader for mail proven by a token, and one for all other mail, which may occupy its thread for seconds. */
	readonly #readers: Readonly<Record<'proven' | 'other', MailReader>>;
	readonly #loops: readonly ReadingLoop[];
	readonly #resolver: Resolver;
	readonly #shares = new LRUCache<string, MailShare>(atMost(maxShares));
	#listener: InboundListener | null = null;
	#mailbox: MailboxPolling | null = null;

	constructor(context: Context) {
		const {settings, store, clock, observer} = context;
		this.#context = context;
		this.#links = createLinks({keys: context.keys, publicUrl: '', random: randomBytes});
		const {returnPathDomain, hostname, dnsServers: servers} = settings;
		this.#domains = new OurDomains([returnPathDomain, hostname], async () =>
			(await Promise.all([listReturnPathHosts(store.reader), listInboundDomains(store.reader)])).flat(),
		);
		const createReader = () =>
			new MailReader({
				limitMs: readLimitMs,
				clock,
				cpu: processCpu,
				observer,
				spawn: shared =>
					new Worker(entryPoint('daemon/threads/reader'), {
						workerData: {shared, bounceRules: context.bounceRules()} satisfies ReaderData,
						resourceLimits: threadLimits.reader,
					}),
			});
		this.#readers = {proven: createReader(), other: createReader()};
		this.#resolver = createResolver({servers, timeoutMs: dnsTimeoutMs, tries: 1, shouldCacheFailures: true, clock});
		this.#loops = this.#createLoops();
	}

	/** Creates one loop for each precedence, so that none waits for another. */
	#createLoops(): ReadingLoop[] {
		const context = this.#context;
		const links = this.#links;
		const {settings, store, clock, boot, observer} = context;
		const {returnPathDomain, hostname} = settings;
		const receivedOptions = {reader: store.reader, links, pastId: createPastIds(), publicUrl: linkBase(settings)};
		const recordOptions = {
			reader: store.reader,
			writer: store.writer,
			write: createReportWrite(context.eventWriter, {retentionDays: () => context.live().retentionDays}),
			links,
			reporters: settings.feedbackReporters,
			ownNames: [returnPathDomain, hostname],
			clock,
			receivedOf: (inbound: StoredInbound, reading: Reading, raw: Buffer) =>
				toReceived(receivedOptions, inbound, reading, raw),
		};
		const loopOptions = {
			store,
			node: boot,
			isAlone: !store.dialect.isShared,
			salvage: (inbound: StoredInbound, error: UnreadableError) =>
				this.#isForPeople(inbound) ? unreadable(error) : null,
			record: async (inbound: StoredInbound, reading: Reading, raw: Buffer) => {
				const effect = await recordReading(recordOptions, inbound, reading, raw);
				this.#releaseShare(inbound, effect);
				observer.inboundRead(inbound, reading, effect);
			},
			clock,
			observer,
		};
		return [
			new ReadingLoop({
				...loopOptions,
				lane: {precedence: precedence.proven, perTurn: 128, maxRows: 128},
				read: (raw, inbound) => this.#readers.proven.read(this.#createJob(raw, inbound, null)),
			}),
			...[precedence.expected, precedence.unproven].map(
				unprovenPrecedence =>
					new ReadingLoop({
						...loopOptions,
						lane: {precedence: unprovenPrecedence, perTurn: 4, maxRows: 8},
						ask: (raw, inbound) => this.#queryDns(raw, inbound),
						read: (raw, inbound, answers) =>
							this.#readers.other.read(this.#createJob(raw, inbound, answers)),
					}),
			),
		];
	}

	/** Whether the local part is one of our tokens, so that mail to it is a report or an unsubscribe request. */
	#isToken(address: string): boolean {
		const local = address.slice(0, address.lastIndexOf('@'));
		return (this.#links.readReturnPath(local) ?? this.#links.readUnsubscribeLocal(local)) !== null;
	}

	#isForPeople({source, rcptTo}: StoredInbound): boolean {
		const feedback = this.#context.settings.feedbackAddress.toLowerCase();
		return (
			source === 'smtp' &&
			!rcptTo.every(address => address === feedback || isReserved(address) || this.#isToken(address))
		);
	}

	/** Returns the envelope of mail that may be for people and is also read as a letter, or `null` for other mail. */
	#findEnvelope(inbound: StoredInbound): Envelope | null {
		const {client = null, helo = null, mailFrom} = inbound;
		return this.#isForPeople(inbound) ? {client, helo, mailFrom} : null;
	}

	#createJob(raw: Buffer, inbound: StoredInbound, answers: DnsAnswers | null): Parameters<MailReader['read']>[0] {
		return inbound.source === 'provider'
			? {kind: 'event', raw}
			: {kind: 'mail', raw, envelope: this.#findEnvelope(inbound), answers};
	}

	#queryDns(raw: Buffer, inbound: StoredInbound): DnsLookups {
		// A copy, so that the message itself does not stay in memory during DNS queries.
		const head = Buffer.from(raw.subarray(0, headBytes));
		const envelope = this.#findEnvelope(inbound);
		return askDns({
			resolver: this.#resolver,
			clock: this.#context.clock,
			missing: answers => this.#readers.other.missing({head, envelope, answers}),
		});
	}

	/** Wakes the loops, because something to be read was stored. */
	wake(): void {
		for (const loop of this.#loops) {
			loop.wake();
		}
	}

	/** Resolves with the listener's address, or `null` if it is off. Rejects if it cannot listen. */
	async start(): Promise<string | null> {
		const {settings, live, store, clock, hasSpace, observer} = this.#context;
		const {returnPathDomain, feedbackAddress, hostname} = settings;
		this.wake();
		if (settings.bounceMailbox !== null) {
			const acceptMessage = (message: FoundMail) => this.#storeFound(message);
			this.#mailbox = new MailboxPolling(this.#context, settings.bounceMailbox, acceptMessage);
		}
		if (settings.inboundListen === null) {
			return null;
		}
		const addresseeOptions = {
			links: this.#links,
			domains: this.#domains,
			returnPathDomain,
			feedbackAddress,
			inboxOf: batchLookups(addresses => findInboxes(store.reader, addresses)),
			addressOf: batchLookups(ids => findRecipientAddresses(store.reader, ids)),
			tokenLifetimeMs: () => reportTokenMs(live().retentionDays),
			clock,
		};
		const {InboundListener} = await import('../inbound/inbound-listener.ts');
		this.#listener = new InboundListener({
			hostname,
			ourNames: [hostname, returnPathDomain],
			tls: this.#tls(),
			judge: address => judgeAddressee(addresseeOptions, address),
			allowances: new Allowances({
				each: settings.inboundAllowance,
				untilRead: () => this.#waitUntilRead(),
				clock,
			}),
			acceptMessage: mail => this.#acceptMessage(mail),
			hasDisk: hasSpace,
			observer: {...observer, inboundTaken: mail => this.#onAccepted(mail)},
		});
		this.#context.certificates.onChange(() => this.reload());
		return hostPort(await this.#listener.listen(settings.inboundListen));
	}

	sessions(): number | null {
		return this.#listener?.sessions() ?? null;
	}

	/** Returns the state of the mailbox, or `null` without one. */
	mailbox(): MailboxFigures | null {
		return this.#mailbox?.figures() ?? null;
	}

	/** Drops what is cached from the store. Other processes may have stored mail. */
	forget(): void {
		this.#domains.forget();
		this.wake();
	}

	/** Applies the current bounce rules. */
	renewBounceRules(): void {
		for (const reader of Object.values(this.#readers)) {
			reader.classifyBy(this.#context.bounceRules());
		}
	}

	#tls(): Tls | null {
		const {settings, certificates} = this.#context;
		return readTls(settings.inboundTlsCert, settings.inboundTlsKey) ?? certificates.own();
	}

	/** Reads the certificate files again. Throws if they cannot be read; the previous certificate remains in use. */
	reload(): void {
		const tls = this.#tls();
		if (tls !== null) {
			this.#listener?.useTls(tls);
		}
	}

	async drain(): Promise<void> {
		await Promise.all([this.#listener?.close(), this.#mailbox?.stop()]);
		await Promise.all(this.#loops.map(loop => loop.stop()));
		await Promise.all(Object.values(this.#readers).map(reader => reader.stop()));
	}

	async #acceptMessage(mail: Parameters<AcceptInbound>[0]): Promise<Accepted> {
		const {store, boot, clock} = this.#context;
		return await acceptInbound({writer: store.writer, node: boot, clock}, mail);
	}

	/** Stores a message found in the mailbox. */
	async #storeFound({raw, source, mailFrom}: FoundMail): Promise<Accepted> {
		const turn: ReadingTurn = {precedence: precedence.expected, turn: 'mailbox'};
		const stored = await this.#acceptMessage({raw, source, mailFrom, rcptTo: [], turn});
		this.wake();
		return stored;
	}

	/** Handles a message that the listener accepted with 250. */
	#onAccepted(mail: ReceivedMail): void {
		const {accepted, share} = mail;
		if (accepted !== null) {
			if (accepted.isNew) {
				this.#shares.set(accepted.id, share);
			}
			this.wake();
		}
		this.#context.observer.inboundTaken(mail);
	}

	/** Drops a message's share of its client's allowance, and gives it back if the message is about our recipients. */
	#releaseShare({id}: StoredInbound, {about, kept}: ReportEffect): void {
		if (about.length > 0 && kept === null) {
			this.#shares.get(id)?.prove(about.map(({recipientId}) => recipientId));
		}
		this.#shares.delete(id);
	}

	/** Waits until everything was read, but only for a limited time; the client may connect again. */
	async #waitUntilRead(): Promise<void> {
		if (this.#shares.size > 0) {
			const idle = Promise.all(this.#loops.map(loop => loop.idle()));
			await Promise.race([idle, setTimeout(maxWaitMs, undefined, {ref: false})]);
		}
	}
}

/** A server has at least this long to respond, even with a shorter interval. */
const minWaitMs = 10_000;

/** Polls MAILCTL_BOUNCE_MAILBOX from now on. */
class MailboxPolling {
	readonly #context: Context;
	readonly #mailbox: BounceMailbox;
	readonly #name: string;
	readonly #follower: MailboxFollower;
	readonly #figures = {up: null as boolean | null, taken: 0, known: 0, skipped: 0, failures: 0};
	/** The reason for the current failure, which is logged once. */
	#reason = '';
	/** Errors of the store, which are not the mailbox's. */
	readonly #storeErrors = new WeakSet();

	constructor(context: Context, mailbox: BounceMailbox, acceptMessage: (message: FoundMail) => Promise<Accepted>) {
		const {settings, store, hasSpace, observer} = context;
		const {logger} = observer;
		const name = nameOfMailbox(mailbox);
		this.#context = context;
		this.#mailbox = mailbox;
		this.#name = name;
		this.#follower = new MailboxFollower({
			mailbox: createMailbox(mailbox, {
				acceptMessage: async message => {
					if (!hasSpace()) {
						const error = new Error('The disk has less free space than MAILCTL_MIN_FREE_DISK.');
						this.#storeErrors.add(error); // This is logged already and is not the mailbox's error.
						throw error;
					}
					return await this.#inStore(acceptMessage(message));
				},
				ca: extraCa(settings),
				checkpoint: {
					load: () => this.#inStore(readCheckpoint(store.reader, name)),
					save: (position, skipped) => this.#savePosition(position, skipped),
				},
				observer: {
					mailUnreadable: (path, error) =>
						logger.warn({event: 'mail_unreadable', mailbox: name, path, err: error}),
					unwatched(error) {
						const text =
							'New bounces are noticed late: raise fs.inotify.max_user_instances and max_user_watches.';
						logger.warn({event: 'mailbox_unwatched', mailbox: name, err: error}, text);
					},
				},
			}),
			intervalMs: settings.bounceMailboxInterval,
			waitLimitMs: Math.min(Math.max(settings.bounceMailboxInterval, minWaitMs), silenceMs),
			observer: {
				mailboxRead: (round, isWorking) => this.#onRead(round, isWorking),
				mailboxFailed: (error, waitMs) => this.#onFailure(error, waitMs),
			},
		});
	}

	figures(): MailboxFigures {
		return {...this.#figures};
	}

	/** Resolves when all activity has stopped. */
	stop(): Promise<void> {
		return this.#follower.stop();
	}

	/** Marks errors of the store, which are not the mailbox's. */
	async #inStore<Result>(work: Promise<Result>): Promise<Result> {
		return await work.catch(error => {
			this.#storeErrors.add(error);
			this.#context.observer.storeFailed(error);
			throw error;
		});
	}

	#onRead({taken, known, cut, skipped}: Round, isWorking: boolean): void {
		const {logger} = this.#context.observer;
		const [mailbox, figures] = [this.#name, this.#figures];
		if (isWorking) {
			if (figures.up === null) {
				logger.info({event: 'mailbox_opened', mailbox});
			} else if (!figures.up) {
				logger.info({event: 'mailbox_recovered', mailbox});
			}
			figures.up = true;
			this.#reason = '';
		}
		figures.taken += taken;
		figures.known += known;
		if (taken + known > 0) {
			logger.debug({event: 'mailbox_read', mailbox, taken, known, cut, skipped});
		}
	}

	#onFailure(error: unknown, waitMs: number): void {
		if (this.#storeErrors.has(error as object)) {
			return;
		}
		const {reason, fix} = mailboxProblem(error, this.#mailbox);
		this.#figures.up = false;
		this.#figures.failures++;
		// Logged once, not at every attempt.
		if (reason !== this.#reason) {
			this.#reason = reason;
			const text = `Bounces in the mailbox are waiting: ${fix} (see mailctl doctor).`;
			const fields = {event: 'mailbox_failed', mailbox: this.#name, reason, retry_ms: waitMs};
			this.#context.observer.logger.error(fields, text);
		}
	}

	async #savePosition(position: string, skipped: readonly Skipped[]): Promise<void> {
		const {store, clock, observer} = this.#context;
		const problems = skipped.map(({uid, error}) => ({uid, ...mailboxProblem(error, this.#mailbox)}));
		const skipReasons = problems.map(({reason}) => reason);
		const checkpoint = {mailbox: this.#name, position, at: storeTime(clock.now()), skipReasons};
		await this.#inStore(store.writer.transaction(trx => saveCheckpoint(trx, checkpoint)));
		this.#figures.skipped += problems.length;
		for (const {uid, reason, fix} of problems) {
			const fields = {event: 'mail_skipped', mailbox: this.#name, uid, reason};
			observer.logger.warn(fields, `The message was skipped: ${fix}.`);
		}
	}
}
