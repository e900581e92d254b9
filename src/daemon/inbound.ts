import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {setTimeout} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {createLinks, type Links} from '../compose/links/links.ts';
import {linkBase} from '../config/derive.ts';
import {extraCa} from '../config/settings.ts';
import {type Accepted, type AcceptInbound, acceptInbound} from '../inbound/accept-inbound.ts';
import {askTogether, judgeAddressee, OurDomains} from '../inbound/addressee.ts';
import {type Asking, askDns} from '../inbound/dns-answers.ts';
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
import type {Context} from './context.ts';
import type {MailboxFigures} from './metrics.ts';
import type {ReaderData} from './threads/reader.ts';

const readLimitMs = 2000;
/** One query takes less than the total for a message, so that a name that does not respond is recognized. */
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
	readonly #readers: Readonly<Record<'proven' | 'others', MailReader>>;
	readonly #loops: readonly ReadingLoop[];
	readonly #resolver: Resolver;
	readonly #shares = new LRUCache<string, MailShare>(atMost(maxShares));
	#listener: InboundListener | null = null;
	#mailbox: ReturnType<typeof startMailboxPolling> = null;

	constructor(context: Context) {
		const {settings, store, clock, observer} = context;
		this.#context = context;
		this.#links = createLinks({keys: context.keys, publicUrl: '', random: randomBytes});
		const {returnPathDomain, hostname, dnsServers: servers} = settings;
		this.#domains = new OurDomains([returnPathDomain, hostname], async () =>
			(await Promise.all([listReturnPathHosts(store.reader), listInboundDomains(store.reader)])).flat(),
		);
		const newReader = () =>
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
		this.#readers = {proven: newReader(), others: newReader()};
		this.#resolver = createResolver({servers, timeoutMs: dnsTimeoutMs, tries: 1, shouldCacheFailures: true, clock});
		this.#loops = this.#newLoops();
	}

	/** Creates one loop for each precedence, so that none waits for another. */
	#newLoops(): ReadingLoop[] {
		const context = this.#context;
		const links = this.#links;
		const {settings, store, clock, boot, observer} = context;
		const {returnPathDomain, hostname} = settings;
		const receiving = {reader: store.reader, links, pastId: createPastIds(), publicUrl: linkBase(settings)};
		const recording = {
			reader: store.reader,
			writer: store.writer,
			write: createReportWrite(context.eventWriter, {retentionDays: () => context.live().retentionDays}),
			links,
			reporters: settings.feedbackReporters,
			ownNames: [returnPathDomain, hostname],
			clock,
			receivedOf: (inbound: StoredInbound, reading: Reading, raw: Buffer) =>
				toReceived(receiving, inbound, reading, raw),
		};
		const common = {
			store,
			node: boot,
			isAlone: !store.dialect.isShared,
			salvage: (inbound: StoredInbound, error: UnreadableError) =>
				this.#isForPeople(inbound) ? unreadable(error) : null,
			record: async (inbound: StoredInbound, read: Reading, raw: Buffer) => {
				const effect = await recordReading(recording, inbound, read, raw);
				this.#useShare(inbound, effect);
				observer.inboundRead(inbound, read, effect);
			},
			clock,
			observer,
		};
		return [
			new ReadingLoop({
				...common,
				lane: {precedence: precedence.proven, perTurn: 128, maxRows: 128},
				read: (raw, inbound) => this.#readers.proven.read(this.#newJob(raw, inbound, null)),
			}),
			...[precedence.expected, precedence.unproven].map(
				each =>
					new ReadingLoop({
						...common,
						lane: {precedence: each, perTurn: 4, maxRows: 8},
						ask: (raw, inbound) => this.#ask(raw, inbound),
						read: (raw, inbound, answers) => this.#readers.others.read(this.#newJob(raw, inbound, answers)),
					}),
			),
		];
	}

	/** Whether the local part is one of our tokens, so that mail to it is a report or a request. */
	#isSigned(address: string): boolean {
		const local = address.slice(0, address.lastIndexOf('@'));
		return (this.#links.readReturnPath(local) ?? this.#links.readUnsubscribeLocal(local)) !== null;
	}

	#isForPeople({source, rcptTo}: StoredInbound): boolean {
		const feedback = this.#context.settings.feedbackAddress.toLowerCase();
		return (
			source === 'smtp' &&
			!rcptTo.every(address => address === feedback || isReserved(address) || this.#isSigned(address))
		);
	}

	/** Returns the sender of mail that may be for people and is also read as a letter, or `null` for other mail. */
	#envelopeOf(inbound: StoredInbound): Envelope | null {
		const {client = null, helo = null, mailFrom} = inbound;
		return this.#isForPeople(inbound) ? {client, helo, mailFrom} : null;
	}

	#newJob(raw: Buffer, inbound: StoredInbound, answers: DnsAnswers | null): Parameters<MailReader['read']>[0] {
		return inbound.source === 'provider'
			? {kind: 'event', raw}
			: {kind: 'mail', raw, envelope: this.#envelopeOf(inbound), answers};
	}

	#ask(raw: Buffer, inbound: StoredInbound): Asking {
		// A copy, so that the message itself is not kept in memory during DNS queries.
		const head = Buffer.from(raw.subarray(0, headBytes));
		const envelope = this.#envelopeOf(inbound);
		return askDns({
			resolver: this.#resolver,
			clock: this.#context.clock,
			missing: answers => this.#readers.others.missing({head, envelope, answers}),
		});
	}

	/** Something to be read was stored. */
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
		this.#mailbox = startMailboxPolling(this.#context, message => this.#takeFound(message));
		if (settings.inboundListen === null) {
			return null;
		}
		const inboxes = askTogether(addresses => findInboxes(store.reader, addresses));
		const judging = {
			links: this.#links,
			domains: this.#domains,
			returnPathDomain,
			feedbackAddress,
			inboxOf: inboxes,
			addressOf: askTogether(ids => findRecipientAddresses(store.reader, ids)),
			tokenLifetimeMs: () => reportTokenMs(live().retentionDays),
			clock,
		};
		const {InboundListener} = await import('../inbound/inbound-listener.ts');
		this.#listener = new InboundListener({
			hostname,
			ourNames: [hostname, returnPathDomain],
			tls: this.#tls(),
			judge: address => judgeAddressee(judging, address),
			allowances: new Allowances({each: settings.inboundAllowance, untilRead: () => this.#untilRead(), clock}),
			acceptMessage: mail => this.#acceptMessage(mail),
			hasDisk: hasSpace,
			observer: {...observer, inboundTaken: mail => this.#onAccepted(mail)},
		});
		this.#context.certificates.onChange(() => this.reload());
		const {address, port} = await this.#listener.listen(settings.inboundListen);
		return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
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
	async #takeFound({raw, source, mailFrom}: FoundMail): Promise<Accepted> {
		const turn: ReadingTurn = {precedence: precedence.expected, turn: 'mailbox'};
		const stored = await this.#acceptMessage({raw, source, mailFrom, rcptTo: [], turn});
		this.wake();
		return stored;
	}

	/** The listener accepted a message with 250. */
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

	/** A message about one of our recipients does not use up its client's allowance. */
	#useShare({id}: StoredInbound, {about, kept}: ReportEffect): void {
		if (about.length > 0 && kept === null) {
			this.#shares.get(id)?.prove(about.map(({recipientId}) => recipientId));
		}
		this.#shares.delete(id);
	}

	/** Waits only for a limited time; a client may connect again. */
	async #untilRead(): Promise<void> {
		if (this.#shares.size > 0) {
			const idle = Promise.all(this.#loops.map(loop => loop.idle()));
			await Promise.race([idle, setTimeout(maxWaitMs, undefined, {ref: false})]);
		}
	}
}

/** A server has at least this long to respond, even with a shorter interval. */
const minWaitMs = 10_000;

/** Polls MAILCTL_BOUNCE_MAILBOX from now on. Returns `null` if it is not set. */
function startMailboxPolling(
	{settings, store, hasSpace, clock, observer: {logger, storeFailed}}: Context,
	acceptMessage: (message: FoundMail) => Promise<Accepted>,
) {
	const {bounceMailbox: mailbox, bounceMailboxInterval} = settings;
	if (mailbox === null) {
		return null;
	}
	const name = nameOfMailbox(mailbox);
	const figures = {up: null as boolean | null, taken: 0, known: 0, skipped: 0, failures: 0};
	let reason = '';
	const ofStore = new WeakSet();

	/** Marks errors of the store, which are not the mailbox's. */
	async function inStore<Result>(work: Promise<Result>): Promise<Result> {
		return await work.catch(error => {
			ofStore.add(error);
			storeFailed(error);
			throw error;
		});
	}

	function mailboxRead({taken, known, cut, skipped}: Round, isWorking: boolean): void {
		if (isWorking) {
			if (figures.up === null) {
				logger.info({event: 'mailbox_opened', mailbox: name});
			} else if (!figures.up) {
				logger.info({event: 'mailbox_recovered', mailbox: name});
			}
			figures.up = true;
			reason = '';
		}
		figures.taken += taken;
		figures.known += known;
		if (taken + known > 0) {
			logger.debug({event: 'mailbox_read', mailbox: name, taken, known, cut, skipped});
		}
	}

	const mailboxFailed = (error: unknown, waitMs: number): void => {
		if (ofStore.has(error as object)) {
			return;
		}
		const problem = mailboxProblem(error, mailbox);
		figures.up = false;
		figures.failures++;
		// Logged once, not at every attempt.
		if (problem.reason !== reason) {
			reason = problem.reason;
			const text = `Bounces in the mailbox are waiting: ${problem.fix} (see mailctl doctor).`;
			logger.error({event: 'mailbox_failed', mailbox: name, reason, retry_ms: waitMs}, text);
		}
	};

	const savePosition = async (position: string, skipped: readonly Skipped[]): Promise<void> => {
		const problems = skipped.map(({uid, error}) => ({uid, ...mailboxProblem(error, mailbox)}));
		const skipReasons = problems.map(problem => problem.reason);
		const checkpoint = {mailbox: name, position, at: storeTime(clock.now()), skipReasons};
		await inStore(store.writer.transaction(trx => saveCheckpoint(trx, checkpoint)));
		figures.skipped += problems.length;
		for (const {uid, reason: why, fix} of problems) {
			logger.warn({event: 'mail_skipped', mailbox: name, uid, reason: why}, `The message was skipped: ${fix}.`);
		}
	};

	const follower = new MailboxFollower({
		mailbox: createMailbox(mailbox, {
			async acceptMessage(message) {
				if (!hasSpace()) {
					const full = new Error('The disk has less free space than MAILCTL_MIN_FREE_DISK.');
					ofStore.add(full); // This is logged already and is not the mailbox's error.
					throw full;
				}
				return await inStore(acceptMessage(message));
			},
			ca: extraCa(settings),
			checkpoint: {
				load: () => inStore(readCheckpoint(store.reader, name)),
				save: savePosition,
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
		intervalMs: bounceMailboxInterval,
		waitLimitMs: Math.min(Math.max(bounceMailboxInterval, minWaitMs), silenceMs),
		observer: {mailboxRead, mailboxFailed},
	});
	return {
		figures: (): MailboxFigures => ({...figures}),
		/** Resolves when no part of it is running any more. */
		stop: () => follower.stop(),
	};
}
