import type {ImapFlow} from 'imapflow';
import {type FoundMail, foundMail, maxMailBytes} from './mail-files.ts';
import {type Taken, takeAll} from './take-in.ts';

/** A message that the server does not hand out. `imapFault` puts the error into words. */
export type Skipped = {readonly uid: number; readonly error: unknown};

/** How far a mailbox was read, see `mailbox_checkpoints`. */
export type Checkpoint = {
	readonly load: () => Promise<string | null>;
	/** `skipped`: messages before the position that were not read. */
	readonly save: (position: string, skipped: readonly Skipped[]) => Promise<void>;
};

type Counting = {taken: number; known: number; cut: number; skipped: number};
/**
 * Counts of one reading of a mailbox: messages that are new here, messages that were known, of both those too large to
 * be read whole, and messages that the server did not hand out.
 */
export type Round = Readonly<Counting>;

export const newRound = (): Counting => ({taken: 0, known: 0, cut: 0, skipped: 0});

/** Counts a message that is stored. */
export function count(round: Counting, {cut}: FoundMail, {isNew}: Taken): void {
	round[isNew ? 'taken' : 'known']++;
	round.cut += cut ? 1 : 0;
}

/** What an error of `FolderReader` may say of the command that failed. */
export type FailedCommand = {
	/** UIDs of the messages that were being fetched. */
	readonly fetching?: readonly number[];
	readonly searching?: true;
};

const failedAt = <Thrown>(error: Thrown, command: FailedCommand): Thrown =>
	Object.assign(error as object, command) as Thrown;

type TakeNewOptions = {
	readonly checkpoint: Checkpoint;
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	/** Stops between two batches. */
	readonly signal: AbortSignal;
};

/** One reading on one connection. */
type Turn = Pick<TakeNewOptions, 'takeIn'> & {
	readonly client: ImapFlow;
	readonly round: Counting;
	/** The server handed out a message, so what it refuses is the fault of that message. */
	works: boolean;
};

type Fetched = {
	/** UIDs of the messages that are stored. */
	readonly got: Set<number>;
	/** Why the others are missing; null: the server does not say. */
	refusal: Error | null;
	/** The server sent something for a message. */
	isAnswered: boolean;
};

/** Messages that one command fetches; then the checkpoint moves. */
const messagesAtOnce = 100;
/** After this many connections that ended at a message, it is not fetched again. One may end by chance. */
const maxLosses = 2;

/**
 * Stores what came into a folder, over as many connections as that takes. A message that the server refuses to hand
 * out, or at which it ends the connection, does not keep others from being read: what fails together is fetched one by
 * one, and the message is skipped once the server has handed out another one. A server that hands out none is broken,
 * and nothing is skipped.
 */
export class FolderReader {
	#validity: string | null = null;
	/** What is being fetched. Still set when the next connection begins if the last one ended there. */
	#pending: readonly number[] | null = null;
	/** Up to this UID messages are fetched one by one. */
	#oneByOneUpTo = 0;
	/** How many connections ended at a message that was fetched alone, by its UID. */
	readonly #losses = new Map<number, number>();

	/**
	 * Stores what is new in the open folder (RFC 3501 §2.3.1.1: UIDs only ever grow, while UIDVALIDITY is the same;
	 * otherwise all is read again, and known messages are recognized). Messages are on stable storage before the
	 * checkpoint moves.
	 */
	async takeNew(client: ImapFlow, {checkpoint, takeIn, signal}: TakeNewOptions): Promise<Round> {
		const validity = validityOf(client);
		this.#noteLoss(validity);
		const uids = await uidsAfter(client, uidIn(await checkpoint.load(), validity));
		const turn: Turn = {client, takeIn, round: newRound(), works: false};
		for (let at = 0; at < uids.length && !signal.aborted; at += messagesAtOnce) {
			const some = uids.slice(at, at + messagesAtOnce);
			const skipped = await this.#takeSome(turn, some);
			await checkpoint.save(`${validity}:${some.at(-1)}`, skipped);
			turn.round.skipped += skipped.length;
			for (const uid of some) {
				this.#losses.delete(uid);
			}
		}
		return turn.round;
	}

	/** Adds to an error of the connection which messages were being fetched. */
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

	async #takeSome(turn: Turn, uids: readonly number[]): Promise<Skipped[]> {
		if ((uids[0] ?? 0) <= this.#oneByOneUpTo) {
			return await this.#takeOneByOne(turn, uids);
		}
		const {got} = await this.#take(turn, uids);
		return await this.#takeOneByOne(
			turn,
			uids.filter(uid => !got.has(uid)),
		);
	}

	/** Returns the messages that are to be skipped. Rejects if the server hands out none at all. */
	async #takeOneByOne(turn: Turn, uids: readonly number[]): Promise<Skipped[]> {
		const faults = new Map<number, Error>();
		// Those at which a connection ended come last, so that the others are read before it may end again.
		for (const uid of uids.toSorted((a, b) => this.#lossesAt(a) - this.#lossesAt(b))) {
			const fault = await this.#takeOne(turn, uid);
			if (fault !== null) {
				faults.set(uid, fault);
			}
		}
		// A refusal may be for a moment only.
		for (const uid of [...faults.keys()]) {
			const fault = await this.#takeOne(turn, uid);
			if (fault === null) {
				faults.delete(uid);
			}
		}
		const [first] = faults.values();
		if (first !== undefined && !turn.works) {
			throw first;
		}
		return [...faults].map(([uid, error]) => ({uid, error}));
	}

	/** Returns why the message cannot be read, or `null` if it is stored or was removed meanwhile. */
	async #takeOne(turn: Turn, uid: number): Promise<Error | null> {
		if (turn.works && this.#lossesAt(uid) >= maxLosses) {
			return failedAt(new Error('the connection was lost'), {fetching: [uid]});
		}
		const {got, refusal} = await this.#take(turn, [uid]);
		if (got.has(uid)) {
			return null;
		}
		const isThere = refusal !== null || (await hasMessage(turn.client, uid));
		return isThere ? failedAt(refusal ?? refused('OK', 'it sends nothing'), {fetching: [uid]}) : null;
	}

	/** Fetches messages with one command, and stores them. */
	async #take(turn: Turn, uids: readonly number[]): Promise<Fetched> {
		const fetched: Fetched = {got: new Set(), refusal: null, isAnswered: false};
		for await (const {mail, taken} of takeAll(this.#fetch(turn.client, uids, fetched), turn.takeIn)) {
			fetched.got.add(mail.uid);
			count(turn.round, mail.found, taken);
		}
		turn.works ||= fetched.isAnswered;
		return fetched;
	}

	/** Without marking them as seen: `source` is fetched by BODY.PEEK. */
	async *#fetch(
		client: ImapFlow,
		uids: readonly number[],
		fetched: Fetched,
	): AsyncGenerator<{readonly uid: number; readonly found: FoundMail}> {
		const wanted = {size: true, source: {start: 0, maxLength: maxMailBytes}} as const;
		this.#pending = uids;
		try {
			for await (const message of client.fetch(uids.join(','), wanted, {uid: true})) {
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
		// A lost connection ends a fetch without a word: what was not fetched must not be passed over.
		validityOf(client);
		this.#pending = null;
	}
}

const refused = (responseStatus: 'OK' | 'NO', message: string): Error =>
	Object.assign(new Error(message), {responseStatus});

/** A server that is asked too often refuses whatever comes next, not one message. */
function isRefusal(error: unknown): error is Error {
	const {code, responseStatus} = error as {readonly code?: string; readonly responseStatus?: string};
	return code !== 'ETHROTTLE' && (responseStatus === 'NO' || responseStatus === 'BAD');
}

/** Throws if the connection, and with it the folder, is lost. */
function validityOf({mailbox}: ImapFlow): string {
	if (mailbox === false) {
		throw new Error('the connection was lost');
	}
	return String(mailbox.uidValidity);
}

async function hasMessage(client: ImapFlow, uid: number): Promise<boolean> {
	const found = await client.search({uid: String(uid)}, {uid: true});
	validityOf(client);
	return found ? found.includes(uid) : true;
}

async function uidsAfter(client: ImapFlow, last: number): Promise<number[]> {
	const found = await client.search({uid: `${last + 1}:*`}, {uid: true});
	if (!found) {
		validityOf(client);
		throw failedAt(refused('NO', 'the server refuses to search'), {searching: true});
	}
	// RFC 3501 §6.4.8: `n:*` always names the last message, also where its UID is below n.
	return found.filter(uid => uid > last).sort((a, b) => a - b);
}

/** The UID up to which a folder was read; 0: nothing was read, or the UIDs are others now. */
function uidIn(position: string | null, validity: string): number {
	const [, then, uid] = /^(\d+):(\d+)$/.exec(position ?? '') ?? [];
	return then === validity ? Number(uid) : 0;
}

const probeBytes = 1024;

/**
 * Fetches the beginning of the message that is to be read next, if there is one. Rejects if the server does not hand it
 * out.
 */
export async function probeNext(client: ImapFlow, position: string | null): Promise<void> {
	const [uid] = await uidsAfter(client, uidIn(position, validityOf(client)));
	if (uid === undefined) {
		return;
	}
	try {
		await client.fetchAll(String(uid), {source: {start: 0, maxLength: probeBytes}}, {uid: true});
		validityOf(client);
	} catch (error) {
		throw failedAt(error, {fetching: [uid]});
	}
}
