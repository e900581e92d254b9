import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import {storeTime} from '../mail/time.ts';
import {
	beginFilling,
	type FilledMessage,
	type FilledMoment,
	type FilledMoments,
	type FilledWorkspace,
	insertFilled,
} from '../store/filling.ts';

export type FillOptions = {
	/** The messages are shared out among them. */
	readonly workspaces: readonly FilledWorkspace[];
	readonly messages: number;
	/** Milliseconds. */
	readonly now: number;
	/** When a message that waits is tried again, milliseconds. Absent: all have come to their end. */
	readonly waitsUntil?: (number: number) => number;
	/** The variables of each; `{n}` becomes its number. */
	readonly data: Readonly<Record<string, unknown>>;
	readonly random: (size: number) => Buffer;
	readonly onProgress?: (done: number) => void;
};

const dayMs = 24 * 3_600_000;
/** So far back traffic goes, and mail that waits. */
const historyMs = 80 * dayMs;
const waitingMs = 3_600_000;
const addresses = 1_000_000;
const domains = 2000;
const bouncedShare = 0.03;
const perTransaction = 20_000;
/** So many were sent together, and share their moments. */
const together = 50;
/** From acceptance to each of the four events, milliseconds. */
const delays = [0, 25, 140, 180] as const;
const chanceBytes = 4;
const suffixBytes = 8;

/** Fills a store, which nobody else uses, with what real traffic leaves, from the oldest message to the newest. */
export async function fillStore(database: Knex, options: FillOptions): Promise<void> {
	await beginFilling(database, options.workspaces);
	const [before = '', after = ''] = JSON.stringify(options.data).split('{n}');
	let writing = Promise.resolve();
	for (let first = 0; first < options.messages; first += perTransaction) {
		// While the engine writes, the next messages are made.
		const count = Math.min(perTransaction, options.messages - first);
		const [messages, moments] = [makeMessages(options, first, count), makeMoments(options, first, count)];
		await writing;
		options.onProgress?.(first);
		writing = database.transaction(trx => insertFilled(trx, messages, moments, [before, after]));
	}
	await writing;
}

function makeMoments({messages, now, waitsUntil}: FillOptions, first: number, count: number): FilledMoments[] {
	const span = waitsUntil ? waitingMs : historyMs;
	return Array.from({length: Math.ceil(count / together)}, (_, index) => {
		const at = Math.floor(now - span + ((first + index * together) * span) / messages);
		return delays.map(delay => momentOf(at + delay)) as unknown as FilledMoments;
	});
}

function momentOf(milliseconds: number): FilledMoment {
	return {id: idFloor('evt', milliseconds).slice(4, 14), at: storeTime(milliseconds)};
}

function makeMessages({workspaces, waitsUntil, random}: FillOptions, first: number, count: number): FilledMessage[] {
	const each = chanceBytes + suffixBytes;
	const bytes = random(count * each);
	return Array.from({length: count}, (_, index) => {
		const number = first + index;
		const chance = bytes.readUInt32LE(index * each);
		// In the order of the indexes: neighbours share pages, which are written once for many rows.
		const address = number % addresses;
		const domain = `mail${address % domains}.example`;
		const due = waitsUntil?.(number);
		return {
			number,
			workspace: address % workspaces.length,
			moments: Math.floor(index / together),
			// Digits of base 16 are digits of an id's base 32 too.
			suffix: bytes.toString('hex', index * each + chanceBytes, (index + 1) * each),
			address: `user${String(address).padStart(6, '0')}@${domain}`,
			domain,
			end: due === undefined ? (chance / 2 ** 32 < bouncedShare ? 'bounced' : 'delivered') : 'waiting',
			due: due === undefined ? null : storeTime(due),
		};
	});
}
