import {createHash} from 'node:crypto';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type InboundSource, precedence, type ReadingTurn} from '../mail/report.ts';
import {insertInbound, type NewInbound} from '../resources/received/inbound-store.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import type {FoundMail} from './mail-files.ts';

/** A message that has arrived, but is not stored yet. */
type IncomingMail = {
	readonly raw: Buffer;
	readonly source: InboundSource;
	/** Empty for the null sender, `null` if unknown. */
	readonly mailFrom: string | null;
	readonly rcptTo: readonly string[];
	readonly client?: string;
	readonly helo?: string;
	/** The workspace whose smarthost posted it. */
	readonly workspaceId?: string | null;
	/** What identifies it. If absent, its bytes and recipients do. */
	readonly uniqueKey?: string;
	/** If absent, the operator supplied it. */
	readonly turn?: ReadingTurn;
};

const operatorTurn: ReadingTurn = {precedence: precedence.proven, turn: 'ingest'};

export type Accepted = {
	/** The key of its row. */
	readonly id: string;
	/** `false` if the same message for the same recipients, or anything with this `uniqueKey`, was stored before. */
	readonly isNew: boolean;
};

/** Returns the part of the key shown to people, in the reply and in the log. */
export function shortKey(id: string): string {
	return id.slice(0, 16);
}

export type AcceptInbound = (mail: IncomingMail) => Promise<Accepted>;

type AcceptOptions = {
	readonly writer: Writer;
	/** The daemon that is to read the messages. */
	readonly node: string | null;
	readonly clock: Pick<Clock, 'now'>;
};

/** Returns the digest that identifies the bytes of a stored message. */
export function digestInbound(raw: Buffer): string {
	return createHash('sha256').update(raw).digest('hex');
}

/**
 * Stores an incoming message. Resolves once it is on stable storage. Rejects if the store fails; the sender retries.
 */
export async function acceptInbound(
	{writer, node, clock}: AcceptOptions,
	{turn = operatorTurn, uniqueKey, ...mail}: IncomingMail,
): Promise<Accepted> {
	const {raw, rcptTo} = mail;
	const digest = digestInbound(raw);
	const id = createHash('sha256')
		.update(uniqueKey ?? [digest, ...rcptTo.toSorted()].join('\n'))
		.digest('hex');
	const receivedAt = storeTime(clock.now());
	return await writer.submit(inboundWrite, {...mail, ...turn, id, digest, node, receivedAt});
}

const inboundWrite: GroupWrite<NewInbound, Accepted> = {
	name: 'inbound',
	rank: 2,
	bytes: ({raw}) => raw.length,
	async apply(trx, messages) {
		// Of several identical messages, the first one is new.
		const byId = new Map(messages.toReversed().map(mail => [mail.id, mail]));
		// A common order prevents deadlocks between two nodes that store the same messages.
		const inserted = await insertInbound(trx, [...byId.values()].sort(byKey));
		return messages.map(mail => ({id: mail.id, isNew: inserted.has(mail.id) && byId.get(mail.id) === mail}));
	},
};

function byKey(a: NewInbound, b: NewInbound): number {
	return a.id < b.id ? -1 : 1;
}

const maxConcurrent = 32;
const maxConcurrentBytes = 16 * 1024 * 1024;

/**
 * Stores messages as they arrive, several at once so that they share the store's commits. Yields each in order once it
 * and all before it are on stable storage. Stops at the first that cannot be stored.
 */
export async function* acceptAll<Mail extends {readonly found: FoundMail}>(
	messages: AsyncIterable<Mail>,
	store: (found: FoundMail) => Promise<Accepted>,
): AsyncGenerator<{readonly mail: Mail; readonly accepted: Accepted}> {
	const pending: Array<{readonly mail: Mail; readonly accepted: Promise<Accepted>}> = [];
	let bytes = 0;

	async function nextStored() {
		const {mail, accepted} = pending.shift() as (typeof pending)[number];
		bytes -= mail.found.raw.length;
		return {mail, accepted: await accepted};
	}

	for await (const mail of messages) {
		const accepted = store(mail.found);
		accepted.catch(() => undefined); // It is awaited in order, or never if an earlier one failed.
		pending.push({mail, accepted});
		bytes += mail.found.raw.length;
		while (pending.length >= maxConcurrent || bytes > maxConcurrentBytes) {
			yield await nextStored();
		}
	}
	while (pending.length > 0) {
		yield await nextStored();
	}
}
