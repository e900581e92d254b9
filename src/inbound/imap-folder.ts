import type {ImapFlow} from 'imapflow';
import {type Accepted, acceptAll} from './accept-inbound.ts';
import {type FoundMail, foundMail, maxMailBytes} from './mail-files.ts';

/** A message that the server does not return. `imapProblem` describes the error. */
export type Skipped = {readonly uid: number; readonly error: unknown};

/** How far a mailbox has been read; see `mailbox_checkpoints`. */
export type Checkpoint = {
	readonly load: () => Promise<string | null>;
	/** `skipped`: messages before the position that were not read. */
	readonly save: (position: string, skipped: readonly Skipped[]) => Promise<void>;
};

type MutableRound = {taken: number; known: number; cut: number; skipped: number};
/**
 * Counts of one pass over a mailbox: messages that are new, messages already known, those of both that were too large
 * to be read completely, and messages that the server did not return.
 */
export type Round = Readonly<MutableRound>;

export const newRound = (): MutableRound => ({taken: 0, known: 0, cut: 0, skipped: 0});

/** Counts a message that is stored. */
export function count(round: MutableRound, {isCut}: FoundMail, {isNew}: Accepted): void {
	round[isNew ? 'taken' : 'known']++;
	round.cut += isCut ? 1 : 0;
}

/** What an error of `FolderReader` reports about the failed command. */
export type FailedCommand = {
	/** UIDs of the messages that were being fetched. */
	readonly fetching?: readonly number[];
	readonly searching?: true;
};

const withCommand = <Thrown>(error: Thrown, command: FailedCommand): Thrown =>
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
	readonly round: MutableRound;
	/** Whether the server has returned a message. If so, a refusal is the fault of the refused message. */
	hasReturnedMessage: boolean;
};

type Fetched = {
	/** UIDs of the messages that are stored. */
	readonly storedUids: Set<number>;
	/** Why the rest is missing, or `null` if the server reports no error. */
	refusal: Error | null;
	/** Whether the server returned anything for a message. */
	hasData: boolean;
};

/** How many messages one command fetches before the checkpoint moves. */
const messagesAtOnce = 100;
/** A message is not fetched again once it has cost this many connections. A single loss may be a coincidence. */
const maxLosses = 2;

/**
 * Stores the new messages of a folder, over as many connections as necessary. A message that the server refuses to
 * return, or for which it closes the connection, does not block the others. Messages that fail together are fetched one
 * by one, and the failing one is skipped once the server has returned another one. If it returns none at all, the
 * server is broken, and nothing is skipped.
 */
export class FolderReader {
	#validity: string | null = null;
	/** The messages being fetched. If the connection is lost meanwhile, this is still set when the next one starts. */
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
		for (let start = 0; start < uids.length && !signal.aborted; start += messagesAtOnce) {
			const batch = uids.slice(start, start + messagesAtOnce);
			const skipped = await this.#takeBatch(pass, batch);
			await checkpoint.save(`${validity}:${batch.at(-1)}`, skipped);
			pass.round.skipped += skipped.length;
			for (const uid of batch) {
				this.#losses.delete(uid);
			}
		}
		return pass.round;
	}

	/** Adds to a connection's error which messages were being fetched. */
	explain(error: unknown): unknown {
		return this.#pending === null ? error : withCommand(error, {fetching: this.#pending});
	}

	#noteLoss(validity: string): void {
		const lost = this.#pending;
		this.#pending = null;
		if (validity !== this.#validity) {
			this.#validity = validity;
			this.#oneByOneUpTo = 0;
			this.#losses.clear();
		} else if (lost !== null) {
			const [uid = 0] = lost;
			this.#oneByOneUpTo = Math.max(this.#oneByOneUpTo, lost.at(-1) ?? 0);
			if (lost.length === 1) {
				this.#losses.set(uid, this.#lossesAt(uid) + 1);
			}
		}
	}

	#lossesAt(uid: number): number {
		return this.#losses.get(uid) ?? 0;
	}

	async #takeBatch(pass: Pass, uids: readonly number[]): Promise<Skipped[]> {
		if ((uids[0] ?? 0) <= this.#oneByOneUpTo) {
			return await this.#takeOneByOne(pass, uids);
		}
		const {storedUids} = await this.#take(pass, uids);
		return await this.#takeOneByOne(
			pass,
			uids.filter(uid => !storedUids.has(uid)),
		);
	}

	/** Returns the messages to skip. Rejects if the server returns none at all. */
	async #takeOneByOne(pass: Pass, uids: readonly number[]): Promise<Skipped[]> {
		const errors = new Map<number, Error>();
		// Messages that cost a connection come last, so that the others are read before another one may be lost.
		for (const uid of uids.toSorted((a, b) => this.#lossesAt(a) - this.#lossesAt(b))) {
			const error = await this.#takeOne(pass, uid);
			if (error !== null) {
				errors.set(uid, error);
			}
		}
		// A refusal may be temporary.
		for (const uid of [...errors.keys()]) {
			const error = await this.#takeOne(pass, uid);
			if (error === null) {
				errors.delete(uid);
			}
		}
		const [firstError] = errors.values();
		if (firstError !== undefined && !pass.hasReturnedMessage) {
			throw firstError;
		}
		return [...errors].map(([uid, error]) => ({uid, error}));
	}

	/** Returns why the message cannot be read, or `null` if it is stored or was removed meanwhile. */
	async #takeOne(pass: Pass, uid: number): Promise<Error | null> {
		if (pass.hasReturnedMessage && this.#lossesAt(uid) >= maxLosses) {
			return withCommand(new Error('the connection was lost'), {fetching: [uid]});
		}
		const {storedUids, refusal} = await this.#take(pass, [uid]);
		if (storedUids.has(uid)) {
			return null;
		}
		const exists = refusal !== null || (await hasMessage(pass.client, uid));
		return exists ? withCommand(refusal ?? refused('OK', 'the server returned nothing'), {fetching: [uid]}) : null;
	}

	/** Fetches messages with one command and stores them. */
	async #take(pass: Pass, uids: readonly number[]): Promise<Fetched> {
		const fetched: Fetched = {storedUids: new Set(), refusal: null, hasData: false};
		for await (const {mail, accepted} of acceptAll(this.#fetch(pass.client, uids, fetched), pass.acceptMessage)) {
			fetched.storedUids.add(mail.uid);
			count(pass.round, mail.found, accepted);
		}
		pass.hasReturnedMessage ||= fetched.hasData;
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
					fetched.hasData = true;
					this.#pending = null;
					yield {uid, found: foundMail('imap', source, Math.max(size ?? 0, source.length))};
					this.#pending = uids;
				} else if ('source' in message) {
					fetched.hasData = true;
					fetched.refusal = refused('OK', 'the server returned NIL as its content');
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
	const uids = await client.search({uid: String(uid)}, {uid: true});
	toValidity(client);
	return uids ? uids.includes(uid) : true;
}

async function uidsAfter(client: ImapFlow, lastUid: number): Promise<number[]> {
	const uids = await client.search({uid: `${lastUid + 1}:*`}, {uid: true});
	if (!uids) {
		toValidity(client);
		throw withCommand(refused('NO', 'the server refused to search'), {searching: true});
	}
	// RFC 3501 §6.4.8: `n:*` always includes the last message, even if its UID is below n.
	return uids.filter(uid => uid > lastUid).sort((a, b) => a - b);
}

/** Returns the UID up to which a folder was read, or 0 if nothing was read or UIDVALIDITY changed. */
function uidIn(position: string | null, validity: string): number {
	const [, savedValidity, uid] = /^(\d+):(\d+)$/.exec(position ?? '') ?? [];
	return savedValidity === validity ? Number(uid) : 0;
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
		throw withCommand(error, {fetching: [uid]});
	}
}
