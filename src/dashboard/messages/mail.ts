import {LRUCache} from 'lru-cache';
import {createTurns} from '../../api/turns.ts';
import {decodeWords} from '../../report/decode.ts';
import {type Field, fieldOf, leavesOf, type Part, readContentType, readMail} from '../../report/mime.ts';
import type {DashboardParts} from '../parts.ts';
import type {Opened} from './one.ts';

/** The mail of a copy, taken apart to be looked at. */
export type ShownMail = {
	readonly raw: Buffer;
	/** It is the one that was sent; else it was made again. */
	readonly isCaptured: boolean;
	readonly fields: readonly Field[];
	readonly html: string | null;
	readonly text: string | null;
	/** All else that it holds. */
	readonly files: readonly MailFile[];
	/** What was left out; null: nothing. */
	readonly fault: string | null;
};

export type MailFile = {
	readonly name: string;
	readonly type: string;
	/** By which the html names it (RFC 2392), null where it has none. */
	readonly contentId: string | null;
	readonly content: () => Buffer;
};

/** Octets of a part that are shown. */
const longestPart = 8 * 1024 * 1024;

/** Mails that were made again are kept for a while: their page, its frame and its tabs ask for the same one. */
const kept = {max: 8, ttl: 60_000, ttlAutopurge: true};

/** Reads mails of copies. Templates are foreign code: each that is made again has a thread of its own, one at a time. */
export function createMailReader({mails}: Pick<DashboardParts, 'mails'>) {
	const turns = createTurns();
	const remade = new LRUCache<string, ShownMail>(kept);
	return async (
		workspaceId: string,
		{message, copy}: Pick<Opened, 'message' | 'copy'>,
	): Promise<ShownMail | {readonly missing: string}> => {
		const captured = await mails.captured(copy.id);
		if (captured !== null) {
			return shownMail(captured, true);
		}
		// Who is erased from the addresses is not to be seen in what was made before.
		const key = JSON.stringify([copy.id, copy.address, message.to, message.cc, message.replyTo]);
		const known = remade.get(key);
		if (known) {
			return known;
		}
		const made = await turns(workspaceId, () => mails.remade(workspaceId, copy.id));
		if (made === 'no_sender') {
			return {missing: 'The mail cannot be made again: its sender was removed.'};
		}
		if (!made.ok) {
			return {missing: `The mail cannot be made: ${made.message.replace(/\.$/, '')}.`};
		}
		const shown = shownMail(made.mail, false);
		remade.set(key, shown);
		return shown;
	};
}

export function shownMail(bytes: Uint8Array, isCaptured: boolean): ShownMail {
	const raw = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	const {root, fault} = readMail(raw, longestPart);
	const leaves = leavesOf(root);
	const bodyOf = (type: string) => leaves.find(leaf => leaf.type === type && nameOf(leaf) === null);
	const [html, text] = [bodyOf('text/html'), bodyOf('text/plain')];
	return {
		raw,
		isCaptured,
		fields: root.fields,
		html: html?.text() ?? null,
		text: text?.text() ?? null,
		files: leaves.filter(leaf => leaf !== html && leaf !== text).map(fileOf),
		fault,
	};
}

function fileOf(part: Part, index: number): MailFile {
	const id = /^\s*<(.+)>\s*$/.exec(fieldOf(part.fields, 'content-id') ?? '')?.[1];
	return {name: nameOf(part) ?? `part-${index + 1}`, type: part.type, contentId: id ?? null, content: part.body};
}

/** The name of a file; null: it has none, or is a body. */
function nameOf({fields, parameters}: Part): string | null {
	const named = readContentType(fieldOf(fields, 'content-disposition')).parameters.filename ?? parameters.name;
	if (named === undefined) {
		return null;
	}
	// Its octets (RFC 2231), read one by one.
	const asUtf8 = /[\x80-\xff]/.test(named) ? Buffer.from(named, 'latin1').toString() : named;
	return decodeWords(asUtf8.includes('\ufffd') ? named : asUtf8);
}
