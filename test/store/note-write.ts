import {insertRows} from '../../src/store/engine/rows.ts';
import type {GroupWrite} from '../../src/store/engine/writer.ts';

export type Note = {
	/** Unique. */
	readonly text: string;
	readonly bytes?: Uint8Array;
	/** Sent in addition to the result. */
	readonly news?: string;
	/** The code of a simulated error of the engine. */
	readonly fault?: string;
	/** Ends the thread. */
	readonly deadly?: true;
	/** Cannot be copied. */
	readonly act?: () => void;
};

export type Noted = {
	/** How many notes shared the transaction, this one among them. */
	readonly together: number;
	readonly where: string;
	/** How many bytes were there, and the last of them. */
	readonly bytes: readonly [length: number | undefined, last: number | undefined];
};

/** Inserts texts into a table that suits. `where` is called for each. */
export function createNoteWrite(where: (note: Note) => string): GroupWrite<Note, Noted> {
	return {
		name: 'note',
		rank: 1,
		async apply(trx, notes) {
			if (notes.some(({deadly}) => deadly)) {
				setImmediate(() => {
					throw new Error('broken');
				});
				await new Promise(() => undefined);
			}
			const fault = notes.find(note => note.fault !== undefined)?.fault;
			if (fault !== undefined) {
				throw Object.assign(new Error(`${fault}: in the thread`), {code: fault, errno: 13});
			}
			await insertRows(
				trx,
				'mta_sts',
				['domain', 'policy_id', 'mode', 'mx', 'fetched_at', 'expires_at'],
				notes.map(({text}) => [text, '1', 'none', '[]', '', '']),
			);
			return notes.map(note => ({
				together: notes.length,
				where: where(note),
				bytes: [note.bytes?.length, note.bytes?.at(-1)],
			}));
		},
	};
}
