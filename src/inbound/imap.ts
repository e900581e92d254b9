import type {ImapFlow} from 'imapflow';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';
import {type Taken, takeAll} from './take-all.ts';

/** Where what was read of a mailbox is written down, see `mailbox_checkpoints`. */
export type Checkpoint = {
	readonly load: () => Promise<string | null>;
	readonly save: (position: string) => Promise<void>;
};

/** What reading brought: mails that are new here, mails that were there already, and of these those too large to be read whole. */
export type Round = {readonly taken: number; readonly known: number; readonly cut: number};

export type TakeNewOptions = {
	readonly checkpoint: Checkpoint;
	readonly takeIn: (found: FoundMail) => Promise<Taken>;
	/** Stops between two mails. */
	readonly signal: AbortSignal;
};

/** So many mails are fetched by a command; then it is written down that they were. */
const mailsAtOnce = 100;

/**
 * Takes in what came into the open folder since the last time (RFC 3501 §2.3.1.1: UIDs only ever grow, while UIDVALIDITY is
 * the same; otherwise all is read anew, and what was there before is recognized). What is taken in is on stable storage before
 * the checkpoint moves.
 */
export async function takeNewOfFolder(client: ImapFlow, {checkpoint, takeIn, signal}: TakeNewOptions): Promise<Round> {
	const validity = validityOf(client);
	const saved = parsePosition(await checkpoint.load());
	const last = saved?.validity === validity ? saved.uid : 0;
	const round = {taken: 0, known: 0, cut: 0};
	const uids = await uidsAfter(client, last);
	for (let at = 0; at < uids.length && !signal.aborted; at += mailsAtOnce) {
		const some = uids.slice(at, at + mailsAtOnce);
		await takeAll(fetchMails(client, some), takeIn, ({found}, {isNew}) => {
			round[isNew ? 'taken' : 'known']++;
			round.cut += found.cut ? 1 : 0;
		});
		// A lost connection ends a fetch without a word: what was not fetched must not be passed over.
		validityOf(client);
		await checkpoint.save(`${validity}:${some.at(-1)}`);
	}
	return round;
}

/** Throws where the connection, and with it the folder, is gone. */
function validityOf({mailbox}: ImapFlow): string {
	if (mailbox === false) {
		throw new Error('the connection was lost');
	}
	return String(mailbox.uidValidity);
}

async function uidsAfter(client: ImapFlow, last: number): Promise<number[]> {
	const found = await client.search({uid: `${last + 1}:*`}, {uid: true});
	if (!found) {
		throw Object.assign(new Error('the server refuses to search'), {responseStatus: 'NO'});
	}
	// RFC 3501 §6.4.8: `n:*` always names the last mail, also where its UID is below n.
	return found.filter(uid => uid > last).sort((a, b) => a - b);
}

/** Without marking them as seen: `source` is fetched by BODY.PEEK. */
async function* fetchMails(client: ImapFlow, uids: readonly number[]): AsyncGenerator<{readonly found: FoundMail}> {
	const wanted = {size: true, source: {start: 0, maxLength: longestMail}} as const;
	for await (const {source, size} of client.fetch(uids.join(','), wanted, {uid: true})) {
		if (source) {
			yield {found: foundMail('imap', source, Math.max(size ?? 0, source.length))};
		}
	}
}

function parsePosition(text: string | null): {readonly validity: string; readonly uid: number} | null {
	const [, validity, uid] = /^(\d+):(\d+)$/.exec(text ?? '') ?? [];
	return validity === undefined ? null : {validity, uid: Number(uid)};
}
