import type {FoundMail} from './found-mail.ts';

/** A mail that is on stable storage; `isNew`: it was not there before. */
export type Taken = {readonly id: string; readonly isNew: boolean};

const mostAtOnce = 32;
const mostBytesAtOnce = 16 * 1024 * 1024;

/**
 * Takes mails in as they come, several at once, so that they share the store's commits. `onTaken` hears of each in their
 * order, when it and all before it are on stable storage. Stops at the first that cannot be stored.
 */
export async function takeAll<Mail extends {readonly found: FoundMail}>(
	mails: AsyncIterable<Mail>,
	takeIn: (found: FoundMail) => Promise<Taken>,
	onTaken: (mail: Mail, taken: Taken) => void | Promise<void>,
): Promise<void> {
	const under: Array<{readonly mail: Mail; readonly taken: Promise<Taken>}> = [];
	let bytes = 0;

	async function settleFirst(): Promise<void> {
		const {mail, taken} = under.shift() as (typeof under)[number];
		bytes -= mail.found.raw.length;
		await onTaken(mail, await taken);
	}

	for await (const mail of mails) {
		const taken = takeIn(mail.found);
		taken.catch(() => undefined); // It is awaited in its turn, or after one that failed before it no more.
		under.push({mail, taken});
		bytes += mail.found.raw.length;
		while (under.length >= mostAtOnce || bytes > mostBytesAtOnce) {
			await settleFirst();
		}
	}
	while (under.length > 0) {
		await settleFirst();
	}
}
