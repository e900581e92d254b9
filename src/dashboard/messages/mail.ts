import {LRUCache} from 'lru-cache';
import {createTurns} from '../../api/turns.ts';
import {bufferOf} from '../../kit/text.ts';
import {type Looks, lookAt} from '../look.ts';
import type {DashboardParts} from '../parts.ts';
import type {SeenMail} from '../seen-mail.ts';
import type {Opened} from './one.ts';

/** The bytes of a copy's mail. */
export type RawMail = {
	readonly raw: Buffer;
	/** It is the one that was sent; else it was made again. */
	readonly isCaptured: boolean;
};

/** The same, taken apart to be looked at. */
export type ShownMail = SeenMail & Pick<RawMail, 'isCaptured'>;

/** Why there is nothing to show, a sentence. */
export type Missing = {readonly missing: string};

/** The page of a mail, its frame and its tabs ask for the same one. */
const kept = {max: 8, ttl: 60_000, ttlAutopurge: true};
/** Octets of what was seen in them. */
const mostSeen = 64 * 1024 * 1024;
const sizeOf = ({html, text}: SeenMail) => 1024 * 1024 + (html?.framed.length ?? 0) + (text?.length ?? 0);

/** Reads mails of copies. Templates are foreign code: each that is made again has a thread of its own, one at a time. */
export function createMailReader({mails}: Pick<DashboardParts, 'mails'>) {
	const turns = createTurns();
	const remade = new LRUCache<string, Buffer>(kept);
	const seen = new LRUCache<string, SeenMail>({...kept, maxSize: mostSeen, sizeCalculation: sizeOf});

	async function rawOf(workspaceId: string, {message, recipient}: Wanted): Promise<RawMail | Missing> {
		const captured = await mails.captured(recipient.id);
		if (captured !== null) {
			return {raw: bufferOf(captured), isCaptured: true};
		}
		const key = keyOf({message, recipient});
		const known = remade.get(key);
		if (known) {
			return {raw: known, isCaptured: false};
		}
		const made = await turns(workspaceId, () => mails.remade(workspaceId, recipient.id));
		if (made === 'no_sender') {
			return {missing: 'The mail cannot be made again: its sender was removed.'};
		}
		if (!made.ok) {
			return {missing: `The mail cannot be made: ${made.message.replace(/\.$/, '')}.`};
		}
		const raw = bufferOf(made.mail);
		remade.set(key, raw);
		return {raw, isCaptured: false};
	}

	return {
		raw: rawOf,
		async shown(workspaceId: string, wanted: Wanted): Promise<ShownMail | Missing> {
			const mail = await rawOf(workspaceId, wanted);
			if ('missing' in mail) {
				return mail;
			}
			const {raw, isCaptured} = mail;
			const key = `${isCaptured} ${keyOf(wanted)}`;
			const known = seen.get(key);
			if (known) {
				return {...known, isCaptured};
			}
			const looked = await lookAt(workspaceId, 'mail', {raw});
			if (!looked.ok) {
				return {missing: `The mail cannot be shown: ${looked.fault}. Its source can.`};
			}
			seen.set(key, looked.seen);
			return {...looked.seen, isCaptured};
		},
		/** A file that it holds. */
		async file(
			workspaceId: string,
			wanted: Wanted,
			index: number,
		): Promise<NonNullable<Looks['file']['seen']> | Missing> {
			const mail = await rawOf(workspaceId, wanted);
			if ('missing' in mail) {
				return mail;
			}
			const looked = await lookAt(workspaceId, 'file', {raw: mail.raw, index});
			return (looked.ok && looked.seen) || {missing: 'The mail has no such file.'};
		},
	};
}

type Wanted = Pick<Opened, 'message' | 'recipient'>;

/** Who is erased from the addresses is not to be seen in what was made before. */
const keyOf = ({message, recipient}: Wanted) =>
	JSON.stringify([recipient.id, recipient.address, message.to, message.cc, message.replyTo]);
