import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Links} from '../links/links.ts';
import type {SignedId} from '../links/tokens.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {verifySignatures} from '../mail/dkim-signatures.ts';
import {type FoundKeys, unreadLetter} from '../mail/received.ts';
import type {CameIn, Candidate, Reading, Via} from '../mail/report.ts';
import type {Resolver} from '../net/dns.ts';
import {recordAggregate} from '../outcome/aggregates.ts';
import {envelopeVias, isOfNobody} from '../outcome/matches.ts';
import type {ReceivedMail} from '../outcome/received.ts';
import type {createReportWrite, ReportEffect} from '../outcome/reports.ts';
import {ForeignWork, type ForeignWorkOptions} from '../pool/foreign-work.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {type InboundEnd, listUnread, markRead, type UnreadInbound} from '../store/inbound-mails.ts';
import {findByProviderIds} from '../store/reports.ts';
import type {Store} from '../store/store.ts';
import {asking} from './verdicts.ts';

type ReadingOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'> & {
		readonly dialect: Pick<Store['dialect'], 'isUnavailable' | 'isConflict'>;
	};
	/** This daemon: its mails are read at once. */
	readonly node: string;
	/** The first look reads the mails of all daemons: no other one runs. */
	readonly alone: boolean;
	/** Asks DNS what reading the mail needs, for some seconds, in which it holds no mail; never rejects. Null: nothing. */
	readonly ask?: (raw: Buffer, cameIn: CameIn) => Promise<unknown> | null;
	/** Reads a mail; rejects where it cannot be read. */
	readonly read: (inbound: ToRead, cameIn: CameIn) => Promise<Reading>;
	/** Writes what it says, and that it was read, in one transaction. */
	readonly record: (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<void>;
	readonly clock: Pick<Clock, 'now'>;
	readonly observer: {
		/** The mail cannot be read or recorded, though the store works: it is kept for a person. */
		readonly inboundUnreadable: (cameIn: CameIn, error: unknown) => void;
		readonly storeFailed: (error: unknown) => void;
	};
};

/** Mails that another node stored are read here if they are unread after this time, milliseconds. */
const othersAfterMs = 60_000;
const mostRows = 128;
const mostBytes = 4 * 1024 * 1024;
/** Pause after all is read, before the next look: few transactions for many mails. */
const gatherMs = 50;
/** Others wait at most this long for what a mail needs of DNS, milliseconds; then it is set aside. */
const promptMs = 250;
const slow = Symbol('slow');
/** Mails that are set aside at once; more of them are read with what DNS answered by then. */
const mostAside = 256;
/** Pause before a failing store is asked again, milliseconds. */
const retryMs = 1000;
const longestFault = 300;

/**
 * Reads the mails that came in and are on stable storage, the oldest first, several at once within a bound of memory. A mail
 * that cannot be read is kept and reported; if the store fails, the mail is read again.
 */
export class ReadingLoop {
	readonly #options: ReadingOptions;
	/** Mails whose DNS is slow, and those whose DNS has answered since the last look, or had its time. */
	readonly #aside = new Set<string>();
	#answered = new Set<string>();
	readonly #others = setInterval(() => this.wake(), othersAfterMs).unref();
	#running: Promise<void> | null = null;
	#again = false;
	#everything: boolean;
	#stopped = false;
	#endRest = (): void => undefined;

	constructor(options: ReadingOptions) {
		this.#options = options;
		this.#everything = options.alone;
	}

	/** Mails came in, or may have. */
	wake(): void {
		if (!this.#stopped) {
			this.#again = true;
			this.#running ??= this.#run();
		}
	}

	/** Resolves when nothing is left to read now. */
	async idle(): Promise<void> {
		while (this.#running) {
			await this.#running;
		}
	}

	/** Resolves when what is under way is written down; the rest is read at the next start. */
	async stop(): Promise<void> {
		this.#stopped = true;
		clearInterval(this.#others);
		this.#endRest();
		await this.#running;
	}

	async #run(): Promise<void> {
		while (this.#again && !this.#stopped) {
			this.#again = false;
			try {
				const more = await this.#readSome();
				this.#again ||= more;
			} catch (error) {
				this.#options.observer.storeFailed(error);
				this.#again = true;
				await this.#rest(retryMs);
			}
		}
		this.#running = null;
	}

	/** Returns whether there is more to read. */
	async #readSome(): Promise<boolean> {
		const {store, node, clock} = this.#options;
		const othersUntil = this.#everything ? latest : storeTime(clock.now() - othersAfterMs);
		const answered = this.#answered;
		this.#answered = new Set();
		const unread = {node, othersUntil, except: [...this.#aside], mostRows, mostBytes};
		const {mails, more} = await listUnread(store.reader, unread);
		const ends = await Promise.all(
			mails.map(async mail =>
				!answered.has(mail.id) && (await this.#setAside(mail)) ? 'aside' : await this.#readOne(mail),
			),
		);
		const isLater = ends.includes('later');
		this.#everything &&= more || isLater || this.#aside.size > 0;
		if (isLater) {
			await this.#rest(retryMs);
		} else if (!more && mails.length > 0) {
			await this.#rest(gatherMs);
		}
		return more || isLater;
	}

	/** Whether the mail is left until DNS has answered, which wakes the loop. */
	async #setAside({raw, ...cameIn}: UnreadInbound): Promise<boolean> {
		const {id} = cameIn;
		const asked = this.#options.ask?.(raw, cameIn);
		const isSlow = asked && (await Promise.race([asked, sleep(promptMs, slow, {ref: false})])) === slow;
		if (isSlow && this.#aside.size < mostAside) {
			this.#aside.add(id);
			asked.then(() => {
				this.#aside.delete(id);
				this.#answered.add(id);
				this.wake();
			});
		}
		return this.#aside.has(id);
	}

	async #readOne({raw, ...cameIn}: UnreadInbound): Promise<'done' | 'later'> {
		const {dialect} = this.#options.store;
		let reading: Reading;
		try {
			reading = await this.#options.read({raw, isEvent: cameIn.source === 'provider'}, cameIn);
		} catch (error) {
			return error instanceof UnfinishedError ? 'later' : await this.#keep(cameIn, error);
		}
		try {
			await this.#options.record(cameIn, reading, raw);
		} catch (error) {
			const isOfStore = dialect.isUnavailable(error) || dialect.isConflict(error);
			return isOfStore ? this.#later(error) : await this.#keep(cameIn, error);
		}
		return 'done';
	}

	async #keep(cameIn: CameIn, error: unknown): Promise<'done' | 'later'> {
		const {store, clock, observer} = this.#options;
		const fault = (error instanceof Error ? error.message : String(error)).slice(0, longestFault);
		const kept = {kept: 'unread', forgotten: false, reading: null, fault} as const;
		try {
			await store.writer.submit(readMarkWrite, {id: cameIn.id, at: storeTime(clock.now()), ...kept});
		} catch (failure) {
			return this.#later(failure);
		}
		observer.inboundUnreadable(cameIn, error);
		return 'done';
	}

	#later(error: unknown): 'later' {
		this.#options.observer.storeFailed(error);
		return 'later';
	}

	#rest(milliseconds: number): Promise<void> {
		return new Promise(resolve => {
			const timer = setTimeout(resolve, this.#stopped ? 0 : milliseconds);
			this.#endRest = () => {
				clearTimeout(timer);
				resolve();
			};
		});
	}
}

/** After every time of the store. */
const latest = '9';

/** Marks mails as read that have no effect. */
export const readMarkWrite: GroupWrite<InboundEnd, void> = {
	name: 'read_mark',
	rank: 3,
	async apply(trx, ends) {
		await markRead(trx, ends);
		return ends.map(() => undefined);
	},
};

/** What came in: a mail, or an event that a provider posted. `keys`: those of its signatures, where it may be for people. */
export type ToRead = {readonly raw: Uint8Array; readonly isEvent: boolean; readonly keys?: FoundKeys};

/** The rules by which refusals are judged from now on. */
export type NewRules = {readonly kind: 'rules'; readonly rules: readonly BounceRule[]};

/** `spawn`: a thread that reads mails in order. `restMs`: how long a thread may be idle before it is ended. */
type ReaderOptions = Pick<
	ForeignWorkOptions<ToRead, Reading, NewRules, never>,
	'spawn' | 'limitMs' | 'clock' | 'cpu' | 'observer' | 'restMs'
>;

/** The mail ended its reader, twice: it is not tried again. */
export class UnreadableError extends Error {}

/** The machine had no time for the mail, or the reader was stopped: that says nothing about it. */
export class UnfinishedError extends Error {}

const batchSize = 16;
const mostBatchBytes = 1024 * 1024;
const usualRestMs = 60_000;

/**
 * The thread that reads mails, which may be hostile. It starts with the first mail and ends when idle: an idle thread collects
 * no garbage, and kept 60 MB of the mails that it had read.
 */
export class MailReader {
	readonly #work: ForeignWork<ToRead, Reading, NewRules>;
	readonly #limitMs: number;

	constructor(options: ReaderOptions) {
		this.#limitMs = options.limitMs;
		this.#work = new ForeignWork({
			restMs: usualRestMs,
			...options,
			name: 'reader',
			noun: 'a mail',
			count: 1,
			batchSize,
			mostHeld: batchSize,
			mostBytes: mostBatchBytes,
			bytesOf: ({raw}) => raw.length,
		});
	}

	/** Rejects with UnreadableError, or with UnfinishedError if it may be tried again. */
	async read(inbound: ToRead): Promise<Reading> {
		const end = await this.#work.do(inbound);
		if (end.ok) {
			return end.result;
		}
		switch (end.why) {
			case 'spent':
				throw new UnreadableError(`Reading it took longer than ${this.#limitMs} ms or too much memory.`);
			case 'starved':
				throw new UnfinishedError('The machine is too busy to read the mail.');
			case 'stopped':
				throw new UnfinishedError('The reader was stopped.');
		}
	}

	/** A thread that starts later must be started with them. */
	classifyBy(rules: readonly BounceRule[]): void {
		this.#work.tell({kind: 'rules', rules});
	}

	stop(): Promise<void> {
		return this.#work.stop();
	}
}

/** A mail that ended its reader. What it says is not known, but its workspace shall have it. */
export function unreadable({message}: UnreadableError): Reading {
	const clues = {addressees: [], envelopeIds: [], refs: [], messageIds: [], returnPaths: [], unsubscribeAddresses: []};
	return {kind: 'other', reports: [], clues, fault: message, letter: unreadLetter(message)};
}

type RecordOptions = TrustedReporterOptions & {
	/** Names of this installation that TLS reports may be about, beside those of the store. */
	readonly ours: readonly string[];
	/** The mail as workspaces get it; absent: they get none of what is read here. */
	readonly receivedOf?: (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<readonly ReceivedMail[]>;
	readonly reader: Knex;
	readonly writer: Writer;
	readonly write: ReturnType<typeof createReportWrite>;
	readonly links: ReadingLinks;
	readonly clock: Pick<Clock, 'now'>;
};

/** Records what a mail says about our recipients, and that it was read; resolves when that is on stable storage. */
export async function recordReading(
	options: RecordOptions,
	cameIn: CameIn,
	reading: Reading,
	raw: Buffer,
): Promise<ReportEffect> {
	const now = storeTime(options.clock.now());
	const received = (await options.receivedOf?.(cameIn, reading, raw)) ?? [];
	if (reading.aggregate && received.length === 0) {
		const signedBy = (await signersOf(options, raw, null))[0] ?? null;
		const read = {cameIn, report: reading.aggregate, signedBy, at: now};
		return await options.writer.transaction(trx => recordAggregate(trx, read, options.ours));
	}
	const all = candidatesOf(options.links, cameIn, reading);
	// What a person answers is no report of the message.
	const isAnswer = received.length > 0 && reading.kind === 'other';
	const byToken = isAnswer ? all.filter(({via}) => envelopeVias.has(via)) : all;
	const candidates =
		byToken.length > 0 ? byToken : await providerCandidates(options.reader, reading.clues.providerIds ?? []);
	const reporter = candidates.length === 0 && !reading.forwarded ? await trustedReporter(options, raw, reading) : null;
	return await options.writer.submit(options.write, {
		...{cameIn, size: raw.length, reading, candidates, reporter, at: now},
		received,
	});
}

type ReadingLinks = Pick<Links, 'readReturnPath' | 'readUnsubscribeLocal' | 'readRef' | 'readMessageIdLocal'>;

/** What a provider answered to our mail is known to the two of us alone, and its event is proven to be its own. */
async function providerCandidates(store: Knex, providerIds: readonly string[]): Promise<Candidate[]> {
	const ids = providerIds.length === 0 ? [] : await findByProviderIds(store, providerIds);
	return ids.map(id => ({via: 'provider_id', id, verify: () => true}));
}

/** Texts of one kind that are looked at: a mail may hold any number. */
const mostTexts = 50;

/**
 * The recipients that a mail may be about, best first (R3.14, R3.19). A candidate proves nothing until its `verify` is asked
 * with the address of its row.
 */
export function candidatesOf(links: ReadingLinks, cameIn: CameIn, reading: Reading): Candidate[] {
	const {clues} = reading;
	const rcptTo = reading.forwarded ? [] : cameIn.rcptTo;
	const toUnsubscribe = (via: Via) =>
		signed(via, [...rcptTo, ...clues.addressees].map(localPart), links.readUnsubscribeLocal);
	const asks = asksToUnsubscribe(cameIn, reading);
	return [
		...(asks ? toUnsubscribe('unsubscribe_mail') : []),
		...signed('return_path', rcptTo.map(localPart), links.readReturnPath),
		...signed('addressee', clues.addressees.map(localPart), links.readReturnPath),
		...signed('mail_from', clues.returnPaths.map(localPart), links.readReturnPath),
		...signed('envelope_id', clues.envelopeIds, links.readRef),
		...signed('ref', clues.refs, links.readRef),
		...ofMessageIds(clues.messageIds.map(localPart), links.readMessageIdLocal),
		...signed('unsubscribe_address', clues.unsubscribeAddresses.map(localPart), links.readUnsubscribeLocal),
		...(asks ? [] : toUnsubscribe('unsubscribe_address')),
	];
}

/** Whether a mail to an unsubscribe address is a request (R3.21): reports and automatic replies are not. */
function asksToUnsubscribe(cameIn: CameIn, reading: Reading): boolean {
	return reading.kind === 'other' && !isOfNobody({cameIn, reading});
}

function signed(via: Via, texts: readonly string[], read: (text: string) => SignedId | null): Candidate[] {
	return distinct(texts).flatMap(text => {
		const found = read(text);
		return found === null ? [] : [{...found, via}];
	});
}

/** Its token says by itself whether it is right. */
function ofMessageIds(locals: readonly string[], read: (local: string) => string | null): Candidate[] {
	return distinct(locals).flatMap(local => {
		const id = read(local);
		return id === null ? [] : [{via: 'message_id', id, verify: () => true}];
	});
}

function distinct(texts: readonly string[]): string[] {
	return [...new Set(texts.slice(0, mostTexts))];
}

/** The text before the `@`, without the angle bracket that some leave there. */
function localPart(address: string): string {
	return address.slice(address.startsWith('<') ? 1 : 0, Math.max(address.lastIndexOf('@'), 0));
}

type TrustedReporterOptions = {
	/** Domains (`d=`) that the operator trusts, in lower case. */
	readonly reporters: readonly string[];
	readonly resolver: Pick<Resolver, 'txt'>;
};

/**
 * To verify ten megabytes of line ends, or a million fields, takes minutes, and the time that a header or a signature takes
 * grows with its square; this much takes less than a second.
 */
const longestSigned = 512 * 1024;
const longestHeader = 32_768;
const longestSignature = 4096;
const mostSignatures = 5;
/** A field that is parsed as one, folded or not (RFC 6376, 8617). */
const signature = /^(?:dkim-signature|arc-[a-z-]{1,40})[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/gm;
/** Counts for nothing, and the library prints what it misses. */
const inPart = /[:;]\s*l\s*=/;

/**
 * The trusted reporter that signed a report that has no token of ours (R3.19); null: none did. Verifies nothing, and does not
 * ask DNS, unless it is a feedback report with the name of a trusted reporter. Never rejects.
 */
export async function trustedReporter(
	options: TrustedReporterOptions,
	raw: Buffer,
	reading: Reading,
): Promise<string | null> {
	return reading.kind === 'arf' ? ((await signersOf(options, raw, options.reporters))[0] ?? null) : null;
}

/** The domains whose signature of the mail is valid; of these names, where it matters only whether one of them signed. Never rejects. */
async function signersOf(
	{resolver}: Pick<TrustedReporterOptions, 'resolver'>,
	raw: Buffer,
	names: readonly string[] | null,
): Promise<string[]> {
	if (raw.length > longestSigned || !mayBeSigned(raw, names)) {
		return [];
	}
	try {
		const verdicts = await verifySignatures(raw, asking(resolver));
		const signers = verdicts.flatMap(({result, domain}) => (result === 'pass' && domain !== null ? [domain] : []));
		return signers.filter(name => names?.includes(name) ?? true);
	} catch {
		return [];
	}
}

function mayBeSigned(raw: Buffer, names: readonly string[] | null): boolean {
	const text = raw.toString('latin1', 0, longestHeader).toLowerCase();
	const end = text.search(/\r?\n\r?\n/);
	const header = text.slice(0, Math.max(0, end));
	const signatures = header.match(signature) ?? [];
	if (signatures.some(field => field.length > longestSignature || inPart.test(field))) {
		return false;
	}
	const own = signatures.filter(field => field.startsWith('dkim'));
	const domains = own.map(field => /[:;\s]d=\s*([^\s;]+)/.exec(field)?.[1] ?? '');
	return domains.length <= mostSignatures && domains.some(name => names?.includes(name) ?? true);
}
