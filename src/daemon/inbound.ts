import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {setTimeout} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import {createResolver} from '../dns/resolver.ts';
import {askTogether, createJudgeAddressee, createOurDomains} from '../inbound/addressee.ts';
import {createAllowances, type MailShare} from '../inbound/allowances.ts';
import type {FoundMail} from '../inbound/found-mail.ts';
import type {Listener, ReceivedMail, RefusalReason} from '../inbound/listener.ts';
import {createReader} from '../inbound/reader.ts';
import {createReading} from '../inbound/reading.ts';
import {createRecord} from '../inbound/record.ts';
import {readTls} from '../inbound/sessions.ts';
import {createTakeIn, shortKey, type Taken} from '../inbound/take-in.ts';
import {createTrustedReporter} from '../inbound/trusted-reporter.ts';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import {processCpu} from '../kit/work-limit.ts';
import {createLinks} from '../links/links.ts';
import type {MailLog} from '../log/mail-events.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {type CameIn, type Reading, reportTokenMs} from '../mail/report.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {findRecipientAddresses, listReturnPathHosts} from '../store/inbound-mails.ts';
import type {MasterKeys} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {ReaderData} from '../threads/reader.ts';
import type {InboundFigures} from './inbound-figures.ts';
import {type MailboxPolling, startMailboxPolling} from './mailbox.ts';
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
	readonly figures: InboundFigures;
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
	const {settings, store, clock, figures, mailLog, boot, onStoreError} = options;
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
				resourceLimits: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4},
			}),
	});
	const reading = createReading({
		store,
		node: boot,
		alone: store.dialect.name === 'sqlite',
		read: reader.read,
		async record(cameIn, read, raw) {
			told(cameIn, read, await recordReading(cameIn, read, raw));
		},
		clock,
		onUnreadable(cameIn, error) {
			figures.mail(cameIn.source, 'unread');
			figures.kept('unread');
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
			figures.mail('smtp', 'dropped');
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
		figures.mail(cameIn.source, kind);
		mailLog.inboundRead({inbound, source: cameIn.source, kind, reports: reports.length, fault, kept});
		if (kept !== null) {
			figures.kept(kept);
		}
		for (const {messageId, recipient, workspaceId: workspace, action, report, event} of about.filter(
			one => one.isNew,
		)) {
			figures.report(kind, action, event);
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
		figures.refused(reason);
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
