import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import type {Links} from '../compose/links/links.ts';
import type {SignedId} from '../compose/links/tokens.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {unquotedLocal} from '../mail/address.ts';
import type {Candidate, Reading, StoredInbound, Via} from '../mail/report.ts';
import type {DnsAnswers} from '../net/dns.ts';
import {recordAggregate} from '../outcome/aggregates.ts';
import {envelopeVias, isOfNobody} from '../outcome/matches.ts';
import type {ReceivedMail} from '../outcome/received.ts';
import type {createReportWrite, ReportEffect} from '../outcome/reports.ts';
import {
	countBegun,
	type InboundEnd,
	listUnread,
	markRead,
	type UnreadInbound,
} from '../resources/received/inbound-store.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {findByProviderIds} from '../store/reports.ts';
import type {Store} from '../store/store.ts';
import type {DnsLookups} from './dns-answers.ts';
import {UnfinishedError, UnreadableError} from './mail-reader.ts';

type ReadingOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'> & {
		readonly dialect: Pick<Store['dialect'], 'isUnavailable' | 'isConflict'>;
	};
	/** The id of this daemon. The messages that it stored are read immediately. */
	readonly node: string;
	/** No other daemon is running, so the first pass reads the messages of all daemons. */
	readonly isAlone: boolean;
	/** Which messages are read, and how many at once, per turn and in total. */
	readonly lane: Lane;
	/** Starts the DNS lookups that a message needs, which may take seconds. Returns `null` if it needs none. */
	readonly ask?: (raw: Buffer, inbound: StoredInbound) => DnsLookups | null;
	/** Reads a message using the DNS answers. Rejects if it cannot be read. */
	readonly read: (raw: Buffer, inbound: StoredInbound, answers: DnsAnswers | null) => Promise<Reading>;
	/** Returns what to record if a message can never be read or recorded, or `null` to retain it for review. */
	readonly salvage?: (inbound: StoredInbound, error: UnreadableError) => Reading | null;
	/** Stores what the message reports, and that it was read, in one transaction. */
	readonly record: (inbound: StoredInbound, reading: Reading, raw: Buffer) => Promise<void>;
	readonly clock: Pick<Clock, 'now'>;
	readonly observer: {
		/** The message cannot be read or recorded, although the store works, and is retained for review. */
		readonly inboundUnreadable: (inbound: StoredInbound, error: unknown) => void;
		/** The result cannot be stored, although the store works: a bug. */
		readonly inboundUnrecorded: (inbound: StoredInbound, error: unknown) => void;
		readonly storeFailed: (error: unknown) => void;
	};
};

type Lane = Pick<Parameters<typeof listUnread>[1], 'precedence' | 'perTurn' | 'maxRows'>;

/** Messages stored by another node are read here if they are still unread after this time, in milliseconds. */
const takeoverMs = 60_000;
const maxBytes = 4 * 1024 * 1024;
/** The pause once everything has been read, so that the next transactions cover many messages each. */
const gatherMs = 50;
/** How long other messages wait for one message's DNS lookups, in milliseconds, before it is set aside. */
const dnsWaitMs = 250;
const slow = Symbol('slow');
/** How many messages are set aside at once. Others are read with the DNS answers received so far. */
const maxSetAside = 256;
/** The pause before a failing store is tried again, in milliseconds. */
const retryMs = 1000;
const maxProblemLength = 300;
/** How many times a crash may interrupt the reading of a message before the message is assumed to be the cause. */
const maxStarts = 2;
/** A provider's event was parsed when it was accepted, so reading it cannot have caused a crash. */
const isSuspect = ({source}: StoredInbound): boolean => source !== 'provider';

/**
 * Reads stored messages: turn by turn, the oldest of each turn first, several at once within a memory limit. A message
 * that cannot be read is retained and reported. If the store fails, the message is read again.
 */
export class ReadingLoop {
	readonly #options: ReadingOptions;
	/** Messages set aside for slow DNS lookups. Once these finish or time out, a message moves to `#resolved`. */
	readonly #setAside = new Set<string>();
	readonly #resolved = new Map<string, DnsLookups>();
	/** Messages marked in the store as started here, and not finished. */
	readonly #begun = new Set<string>();
	readonly #takeoverTimer = setInterval(() => this.wake(), takeoverMs).unref();
	#running: Promise<void> | null = null;
	#shouldRunAgain = false;
	#shouldReadAll: boolean;
	#after: string | null = null;
	#isStopped = false;
	#endPause = (): void => undefined;

	constructor(options: ReadingOptions) {
		this.#options = options;
		this.#shouldReadAll = options.isAlone;
	}

	/** Reports that there may be new messages. */
	wake(): void {
		if (!this.#isStopped) {
			this.#shouldRunAgain = true;
			this.#running ??= this.#run();
		}
	}

	/** Resolves when nothing is left to read for now. */
	async idle(): Promise<void> {
		while (this.#running) {
			await this.#running;
		}
	}

	/** Resolves when the messages in progress are recorded. The rest is read after the next start. */
	async stop(): Promise<void> {
		this.#isStopped = true;
		clearInterval(this.#takeoverTimer);
		this.#endPause();
		await this.#running;
		await this.#removeMarks();
	}

	/** Removes the marks of unread messages, because an orderly stop casts no suspicion on them. */
	async #removeMarks(): Promise<void> {
		try {
			await Promise.all([...this.#begun].map(id => this.#options.store.writer.submit(removeMarkWrite, id)));
		} catch (error) {
			this.#options.observer.storeFailed(error);
		}
	}

	async #run(): Promise<void> {
		while (this.#shouldRunAgain && !this.#isStopped) {
			this.#shouldRunAgain = false;
			try {
				const hasMore = await this.#readBatch();
				this.#shouldRunAgain ||= hasMore;
			} catch (error) {
				this.#options.observer.storeFailed(error);
				this.#shouldRunAgain = true;
				await this.#pause(retryMs);
			}
		}
		this.#running = null;
	}

	/** Returns whether there is more to read. */
	async #readBatch(): Promise<boolean> {
		const {store, node, clock, lane} = this.#options;
		const othersUntil = this.#shouldReadAll ? endOfTime : storeTime(clock.now() - takeoverMs);
		const query = {...lane, node, othersUntil, after: this.#after, except: [...this.#setAside], maxBytes};
		const batch = await listUnread(store.reader, query);
		const suspect = batch.messages.find(mail => isSuspect(mail) && mail.begun > 0 && !this.#begun.has(mail.id));
		// Read it alone, so that another crash proves it to be the cause.
		const messages = suspect === undefined ? batch.messages : [suspect];
		this.#after = suspect === undefined ? batch.after : this.#after;
		await this.#begin(messages);
		const results = await Promise.all(messages.map(mail => this.#process(mail)));
		const shouldRetry = results.includes('later');
		const hasMore = batch.hasMore || suspect !== undefined;
		this.#shouldReadAll &&= hasMore || shouldRetry || this.#setAside.size > 0;
		if (shouldRetry) {
			await this.#pause(retryMs);
		} else if (!hasMore && messages.length > 0) {
			await this.#pause(gatherMs);
		}
		return hasMore || shouldRetry;
	}

	/** Marks messages in the store as started. Only a crash leaves the mark in place. */
	async #begin(messages: readonly UnreadInbound[]): Promise<void> {
		const fresh = messages.filter(mail => isSuspect(mail) && mail.begun < maxStarts && !this.#begun.has(mail.id));
		const marks = fresh.map(async ({id}) => {
			await this.#options.store.writer.submit(beginWrite, id);
			// Even if another mark fails: otherwise this message would be suspected of a crash that never happened.
			this.#begun.add(id);
		});
		await Promise.all(marks);
	}

	async #process({raw, begun, ...inbound}: UnreadInbound): Promise<'done' | 'later' | 'aside'> {
		const {id} = inbound;
		const outcome =
			this.#begun.has(id) || !isSuspect(inbound)
				? await this.#readOrSetAside(inbound, raw)
				: await this.#giveUp(
						inbound,
						raw,
						new UnreadableError(`The daemon crashed ${begun} times while reading it.`),
					);
		if (outcome === 'done') {
			this.#begun.delete(id);
		}
		return outcome;
	}

	async #readOrSetAside(inbound: StoredInbound, raw: Buffer): Promise<'done' | 'later' | 'aside'> {
		const lookups = this.#resolved.get(inbound.id) ?? this.#options.ask?.(raw, inbound) ?? null;
		this.#resolved.delete(inbound.id);
		let reading: Reading;
		try {
			if (lookups !== null && (await this.#setAsideIfSlow(inbound.id, lookups))) {
				return 'aside';
			}
			reading = await this.#options.read(raw, inbound, lookups?.known ?? null);
		} catch (error) {
			if (error instanceof UnfinishedError) {
				return 'later';
			}
			return await this.#giveUp(inbound, raw, error);
		}
		return await this.#record(inbound, reading, raw);
	}

	/** Sets a message with slow DNS lookups aside until they finish, which wakes the loop. Returns whether it did. */
	async #setAsideIfSlow(id: string, lookups: DnsLookups): Promise<boolean> {
		const isSlow = (await Promise.race([lookups.done, sleep(dnsWaitMs, slow, {ref: false})])) === slow;
		if (!isSlow || this.#setAside.size + this.#resolved.size >= maxSetAside) {
			return false;
		}
		this.#setAside.add(id);
		const wake = (): void => {
			this.#setAside.delete(id);
			this.#resolved.set(id, lookups);
			this.wake();
		};
		lookups.done.then(wake, wake);
		return true;
	}

	async #giveUp(inbound: StoredInbound, raw: Buffer, error: unknown): Promise<'done' | 'later'> {
		const salvaged = error instanceof UnreadableError ? this.#options.salvage?.(inbound, error) : null;
		return salvaged ? await this.#record(inbound, salvaged, raw, 'salvaged') : await this.#retain(inbound, error);
	}

	async #record(
		inbound: StoredInbound,
		reading: Reading,
		raw: Buffer,
		attempt: 'first' | 'salvaged' = 'first',
	): Promise<'done' | 'later'> {
		const {store, observer} = this.#options;
		try {
			await this.#options.record(inbound, reading, raw);
		} catch (error) {
			if (store.dialect.isUnavailable(error) || store.dialect.isConflict(error)) {
				return this.#later(error);
			}
			observer.inboundUnrecorded(inbound, error);
			// This text is shown to people. The error itself may contain SQL and untrusted text.
			const unrecorded = new UnreadableError('The result could not be recorded; see the log for the reason.');
			return attempt === 'first'
				? await this.#giveUp(inbound, raw, unrecorded)
				: await this.#retain(inbound, unrecorded);
		}
		return 'done';
	}

	async #retain(inbound: StoredInbound, error: unknown): Promise<'done' | 'later'> {
		const {store, clock, observer} = this.#options;
		const fault = (error instanceof Error ? error.message : String(error)).slice(0, maxProblemLength);
		const mark = {kept: 'unread', isDiscarded: false, reading: null, fault} as const;
		try {
			await store.writer.submit(readMarkWrite, {id: inbound.id, at: storeTime(clock.now()), ...mark});
		} catch (failure) {
			return this.#later(failure);
		}
		observer.inboundUnreadable(inbound, error);
		return 'done';
	}

	#later(error: unknown): 'later' {
		this.#options.observer.storeFailed(error);
		return 'later';
	}

	#pause(milliseconds: number): Promise<void> {
		return new Promise(resolve => {
			const timer = setTimeout(resolve, this.#isStopped ? 0 : milliseconds);
			this.#endPause = () => {
				clearTimeout(timer);
				resolve();
			};
		});
	}
}

/** Sorts after every time in the store. */
const endOfTime = '9';

/** Marks messages that had no effect as read. */
export const readMarkWrite: GroupWrite<InboundEnd, void> = {
	name: 'read_mark',
	rank: 3,
	async apply(trx, marks) {
		await markRead(trx, marks);
		return marks.map(() => undefined);
	},
};

const createBegunWrite = (name: string, by: 1 | -1): GroupWrite<string, void> => ({
	name,
	rank: 3,
	async apply(trx, ids) {
		await countBegun(trx, ids, by);
		return ids.map(() => undefined);
	},
});

const beginWrite = createBegunWrite('read_begin', 1);
const removeMarkWrite = createBegunWrite('read_take_back', -1);

type RecordOptions = {
	/** Domains (`d=`) that the operator trusts, in lower case. */
	readonly reporters: readonly string[];
	/** Names of this installation that TLS reports may be about, in addition to those in the store. */
	readonly ownNames: readonly string[];
	/** Returns the message as workspaces receive it. If absent, they receive none of what is read here. */
	readonly receivedOf?: (inbound: StoredInbound, reading: Reading, raw: Buffer) => Promise<readonly ReceivedMail[]>;
	readonly reader: Knex;
	readonly writer: Writer;
	readonly write: ReturnType<typeof createReportWrite>;
	readonly links: ReadingLinks;
	readonly clock: Pick<Clock, 'now'>;
};

/** Records what a message reports about recipients, and that it was read. Resolves once that is on stable storage. */
export async function recordReading(
	options: RecordOptions,
	inbound: StoredInbound,
	reading: Reading,
	raw: Buffer,
): Promise<ReportEffect> {
	const now = storeTime(options.clock.now());
	const received = (await options.receivedOf?.(inbound, reading, raw)) ?? [];
	if (reading.aggregate && received.length === 0) {
		const aggregate = {inbound, report: reading.aggregate, signers: reading.signers ?? [], at: now};
		return await options.writer.transaction(trx => recordAggregate(trx, aggregate, options.ownNames));
	}
	const claimed = findCandidates(options.links, inbound, reading);
	// A person's reply is not a report about the message.
	const isReply = received.length > 0 && reading.kind === 'other';
	const byToken = isReply ? claimed.filter(({via}) => envelopeVias.has(via)) : claimed;
	const candidates =
		byToken.length > 0 ? byToken : await providerCandidates(options.reader, reading.clues.providerIds ?? []);
	const reporter = candidates.length === 0 ? trustedReporter(options.reporters, reading) : null;
	return await options.writer.submit(options.write, {
		inbound,
		size: raw.length,
		reading,
		candidates,
		reporter,
		at: now,
		received,
	});
}

type ReadingLinks = Pick<Links, 'readReturnPath' | 'readUnsubscribeLocal' | 'readRef' | 'readMessageIdLocal'>;

/** Finds recipients by the ids in providers' replies. Only we and the provider know them, and its event is verified. */
async function providerCandidates(store: Knex, providerIds: readonly string[]): Promise<Candidate[]> {
	const rows = await findByProviderIds(store, providerIds);
	return rows.map(({id}) => ({via: 'provider_id', id, verify: () => true}));
}

/** At most this many texts of each kind are checked, because a message may contain any number. */
const maxTexts = 50;

/**
 * Returns the recipients that a message may be about, best first (R3.14, R3.19). A candidate proves nothing until
 * `verify` succeeds with the address in its row.
 */
export function findCandidates(links: ReadingLinks, inbound: StoredInbound, reading: Reading): Candidate[] {
	const {clues} = reading;
	const rcptTo = reading.forwarded ? [] : inbound.rcptTo;
	const byUnsubscribeAddress = (via: Via) =>
		signed(via, [...rcptTo, ...clues.addressees].map(localPart), links.readUnsubscribeLocal);
	const isUnsubscribe = isUnsubscribeRequest(inbound, reading);
	return [
		...(isUnsubscribe ? byUnsubscribeAddress('unsubscribe_mail') : []),
		...signed('return_path', rcptTo.map(localPart), links.readReturnPath),
		...signed('addressee', clues.addressees.map(localPart), links.readReturnPath),
		...signed('mail_from', clues.returnPaths.map(localPart), links.readReturnPath),
		...signed('envelope_id', clues.envelopeIds, links.readRef),
		...signed('ref', clues.refs, links.readRef),
		...byMessageIds(clues.messageIds.map(localPart), links.readMessageIdLocal),
		...signed('unsubscribe_address', clues.unsubscribeAddresses.map(localPart), links.readUnsubscribeLocal),
		...(isUnsubscribe ? [] : byUnsubscribeAddress('unsubscribe_address')),
	];
}

/** Whether a message to an unsubscribe address is a request (R3.21). Reports and automatic replies are not. */
function isUnsubscribeRequest(inbound: StoredInbound, reading: Reading): boolean {
	return reading.kind === 'other' && !isOfNobody({inbound, reading});
}

function signed(via: Via, texts: readonly string[], read: (text: string) => SignedId | null): Candidate[] {
	return distinct(texts).flatMap(text => {
		const signedId = read(text);
		return signedId === null ? [] : [{...signedId, via}];
	});
}

/** Returns the recipients that our Message-IDs identify. Their tokens can be verified without an address. */
function byMessageIds(locals: readonly string[], read: (local: string) => string | null): Candidate[] {
	return distinct(locals).flatMap(local => {
		const id = read(local);
		return id === null ? [] : [{via: 'message_id', id, verify: () => true}];
	});
}

function distinct(texts: readonly string[]): string[] {
	return [...new Set(texts.slice(0, maxTexts))];
}

/** Returns the text before the `@`, without quotes or a leading angle bracket. */
function localPart(address: string): string {
	return unquotedLocal(address.slice(address.startsWith('<') ? 1 : 0, Math.max(address.lastIndexOf('@'), 0)));
}

/** Returns the trusted reporter that signed a feedback report without a token (R3.19), or `null`. */
export function trustedReporter(reporters: readonly string[], {kind, forwarded, signers = []}: Reading): string | null {
	return kind === 'arf' && !forwarded ? (signers.find(name => reporters.includes(name)) ?? null) : null;
}
