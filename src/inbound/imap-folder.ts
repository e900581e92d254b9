import type {ImapFlow} from 'imapflow';
import {type Accepted, takeAll} from './accept-inbound.ts';
import {type FoundMail, foundMail, maxMailBytes} from './mail-files.ts';

/** A message that the server does not return. `imapFault` describes the error. */
export type Skipped = {readonly uid: number; readonly error: unknown};

/** How far a mailbox has been read; see `mailbox_checkpoints`. */
export type Checkpoint = {
	readonly load: () => Promise<string | null>;
	/** `skipped`: messages before the position that were not read. */
	readonly save: (position: string, skipped: readonly Skipped[]) => Promise<void>;
};

type Counting = {taken: number; known: number; cut: number; skipped: number};
/**
 * Counts of one pass over a mailbox: messages that are new, messages already known, those of both that were too large
 * to be read completely, and messages that the server did not return.
 */
export type Round = Readonly<Counting>;

export const newRound = (): Counting => ({taken: 0, known: 0, cut: 0, skipped: 0});

/** Counts a message that is stored. */
export function count(round: Counting, {isCut}: FoundMail, {isNew}: Accepted): void {
	round[isNew ? 'taken' : 'known']++;
	round.cut += isCut ? 1 : 0;
}

/** What an error of `FolderReader` reports about the failed command. */
export type FailedCommand = {
	/** UIDs of the messages that were being fetched. */
	readonly fetching?: readonly number[];
	readonly searching?: true;
};

const failedAt = <Thrown>(error: Thrown, command: FailedCommand): Thrown =>
	Object.assign(error as object, command) as Thrown;

type TakeNewOptions = {
	readonly checkpoint: Checkpoint;
	readonly acceptMessage: (found: FoundMail) => Promise<Accepted>;
	/** Stops between two batches. */
	readonly signal: AbortSignal;
};

/** One pass over one connection. */
type Pass = Pick<TakeNewOptions, 'acceptMessage'> & {
	readonly client: ImapFlow;
	readonly round: Counting;
	/** Whether the server has returned a message. If so, a refusal is the fault of the refused message. */
	hasReturnedMessage: boolean;
};

type Fetched = {
	/** UIDs of the messages that are stored. */
	readonly got: Set<number>;
	/** Why the others are missing, or `null` if the server does not say. */
	refusal: Error | null;
	/** Whether the server sent something for a message. */
	isAnswered: boolean;
};

/** How many messages one command fetches before the checkpoint moves. */
const messagesAtOnce = 100;
/** A message is not fetched again after so many connections were lost at it. A single loss may be a coincidence. */
const maxLosses = 2;

/**
 * Stores the new messages of a folder, over as many connections as necessary. A message that the server refuses to
 * return, or at which it closes the connection, does not block the others. Messages that fail together are fetched one
 * by one, and the failing one is skipped once the server has returned another one. If it returns none at all, the
 * server is broken, and nothing is skipped.
 */
export class FolderReader {
	#validity: string | null = null;
	/** The messages being fetched. Still set when the next connection starts if the last one was lost meanwhile. */
	#pending: readonly number[] | null = null;
	/** Messages up to this UID are fetched one by one. */
	#oneByOneUpTo = 0;
	/** How many connections were lost while fetching a single message, by its UID. */
	readonly #losses = new Map<number, number>();

	/**
	 * Stores the new messages of the open folder. UIDs only grow while UIDVALIDITY is the same (RFC 3501 §2.3.1.1).
	 * Otherwise everything is read again, and known messages are recognized. Messages are on stable storage before the
	 * checkpoint moves.
	 */
	async takeNew(client: ImapFlow, {checkpoint, acceptMessage, signal}: TakeNewOptions): Promise<Round> {
		const validity = toValidity(client);
		this.#noteLoss(validity);
		const uids = await uidsAfter(client, uidIn(await checkpoint.load(), validity));
		const pass: Pass = {client, acceptMessage, round: newRound(), hasReturnedMessage: false};
		for (let at = 0; at < uids.length && !signal.aborted; at += messagesAtOnce) {
			const some = uids.slice(at, at + messagesAtOnce);
			const skipped = await this.#takeSome(pass, some);
			await checkpoint.save(`${validity}:${some.at(-1)}`, skipped);
			pass.round.skipped += skipped.length;
			for (const uid of some) {
				this.#losses.delete(uid);
			}
		}
		return pass.round;
	}

	/** Adds to a connection's error which messages were being fetched. */
	explain(error: unknown): unknown {
		return this.#pending === null ? error : failedAt(error, {fetching: this.#pending});
	}

	#noteLoss(validity: string): void {
		const lost = this.#pending;
		this.#pending = null;
		if (validity !== this.#validity) {
			this.#validity = validity;
			this.#oneByOneUpTo = 0;
			this.#losses.clear();
		} else if (lost !== null) {
			const [first = 0] = lost;
			this.#oneByOneUpTo = Math.max(this.#oneByOneUpTo, lost.at(-1) ?? 0);
			if (lost.length === 1) {
				this.#losses.set(first, this.#lossesAt(first) + 1);
			}
		}
	}

	#lossesAt(uid: number): number {
		return this.#losses.get(uid) ?? 0;
	}

	async #takeSome(pass: Pass, uids: readonly number[]): Promise<Skipped[]> {
		if ((uids[0] ?? 0) <= this.#oneByOneUpTo) {
			return await this.#takeOneByOne(pass, uids);
		}
		const {got} = await this.#take(pass, uids);
		return await this.#takeOneByOne(
			pass,
			uids.filter(uid => !got.has(uid)),
		);
	}

	/** Returns the messages to skip. Rejects if the server returns none at all. */
	async #takeOneByOne(pass: Pass, uids: readonly number[]): Promise<Skipped[]> {
		const faults = new Map<number, Error>();
		// Messages at which a connection was lost come last, so that the others are read before it may be lost again.
		for (const uid of uids.toSorted((a, b) => this.#lossesAt(a) - this.#lossesAt(b))) {
			const fault = await this.#takeOne(pass, uid);
			if (fault !== null) {
				faults.set(uid, fault);
			}
		}
		// A refusal may be temporary.
		for (const uid of [...faults.keys()]) {
			const fault = await this.#takeOne(pass, uid);
			if (fault === null) {
				faults.delete(uid);
			}
		}
		const [first] = faults.values();
		if (first !== undefined && !pass.hasReturnedMessage) {
			throw first;
		}
		return [...faults].map(([uid, error]) => ({uid, error}));
	}

	/** Returns why the message cannot be read, or `null` if it is stored or was removed meanwhile. */
	async #takeOne(pass: Pass, uid: number): Promise<Error | null> {
		if (pass.hasReturnedMessage && this.#lossesAt(uid) >= maxLosses) {
			return failedAt(new Error('the connection was lost'), {fetching: [uid]});
		}
		const {got, refusal} = await this.#take(pass, [uid]);
		if (got.has(uid)) {
			return null;
		}
		const isThere = refusal !== null || (await hasMessage(pass.client, uid));
		return isThere ? failedAt(refusal ?? refused('OK', 'it sends nothing'), {fetching: [uid]}) : null;
	}

	/** Fetches messages with one command and stores them. */
	async #take(pass: Pass, uids: readonly number[]): Promise<Fetched> {
		const fetched: Fetched = {got: new Set(), refusal: null, isAnswered: false};
		for await (const {mail, accepted} of takeAll(this.#fetch(pass.client, uids, fetched), pass.acceptMessage)) {
			fetched.got.add(mail.uid);
			count(pass.round, mail.found, accepted);
		}
		pass.hasReturnedMessage ||= fetched.isAnswered;
		return fetched;
	}

	/** Fetches `source` with BODY.PEEK, which does not mark messages as seen. */
	async *#fetch(
		client: ImapFlow,
		uids: readonly number[],
		fetched: Fetched,
	): AsyncGenerator<{readonly uid: number; readonly found: FoundMail}> {
		const query = {size: true, source: {start: 0, maxLength: maxMailBytes}} as const;
		this.#pending = uids;
		try {
			for await (const message of client.fetch(uids.join(','), query, {uid: true})) {
				const {uid, source, size} = message;
				if (source) {
					fetched.isAnswered = true;
					this.#pending = null;
					yield {uid, found: foundMail('imap', source, Math.max(size ?? 0, source.length))};
					this.#pending = uids;
				} else if ('source' in message) {
					fetched.isAnswered = true;
					fetched.refusal = refused('OK', 'it sends NIL as its content');
				}
			}
		} catch (error) {
			if (!isRefusal(error)) {
				throw error;
			}
			fetched.refusal = error;
		}
		// A lost connection ends a fetch silently; messages that were not fetched must not be skipped.
		toValidity(client);
		this.#pending = null;
	}
}

const refused = (responseStatus: 'OK' | 'NO', message: string): Error =>
	Object.assign(new Error(message), {responseStatus});

/** Whether an error is about one message. A rate-limited server refuses anything, not just one message. */
function isRefusal(error: unknown): error is Error {
	const {code, responseStatus} = error as {readonly code?: string; readonly responseStatus?: string};
	return code !== 'ETHROTTLE' && (responseStatus === 'NO' || responseStatus === 'BAD');
}

/** Throws if the connection was lost, and the folder with it. */
function toValidity({mailbox}: ImapFlow): string {
	if (mailbox === false) {
		throw new Error('the connection was lost');
	}
	return String(mailbox.uidValidity);
}

async function hasMessage(client: ImapFlow, uid: number): Promise<boolean> {
	const found = await client.search({uid: String(uid)}, {uid: true});
	toValidity(client);
	return found ? found.includes(uid) : true;
}

async function uidsAfter(client: ImapFlow, last: number): Promise<number[]> {
	const found = await client.search({uid: `${last + 1}:*`}, {uid: true});
	if (!found) {
		toValidity(client);
		throw failedAt(refused('NO', 'the server refuses to search'), {searching: true});
	}
	// RFC 3501 §6.4.8: `n:*` always includes the last message, even if its UID is below n.
	return found.filter(uid => uid > last).sort((a, b) => a - b);
}

/** Returns the UID up to which a folder was read, or 0 if nothing was read or UIDVALIDITY changed. */
function uidIn(position: string | null, validity: string): number {
	const [, then, uid] = /^(\d+):(\d+)$/.exec(position ?? '') ?? [];
	return then === validity ? Number(uid) : 0;
}

const probeBytes = 1024;

/** Fetches the beginning of the next message to read, if there is one. Rejects if the server does not return it. */
export async function probeNext(client: ImapFlow, position: string | null): Promise<void> {
	const [uid] = await uidsAfter(client, uidIn(position, toValidity(client)));
	if (uid === undefined) {
		return;
	}
	try {
		await client.fetchAll(String(uid), {source: {start: 0, maxLength: probeBytes}}, {uid: true});
		toValidity(client);
	} catch (error) {
		throw failedAt(error, {fetching: [uid]});
	}
}
