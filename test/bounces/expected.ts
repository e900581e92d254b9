import {existsSync, readFileSync} from 'node:fs';
import path from 'node:path';

/** What a mail that came back means for one recipient. */
export type Verdict = 'hard' | 'soft' | 'none' | 'complaint' | 'unsubscribe';

/** What a file says of one recipient. Fields besides these are notes for people. */
export type ExpectedRow = {
	/** The address that the mail names; null where it hides it. */
	readonly recipient: string | null;
	/** The address that was sent to, where it is another. */
	readonly original_recipient: string | null;
	readonly expected: Verdict;
	/** The verdicts that count as right. */
	readonly accept: readonly Verdict[];
};

export type ExpectedFile = {readonly file: string; readonly recipients: readonly ExpectedRow[]};

/** Mails with what they mean. */
export type Collection = {
	readonly files: readonly ExpectedFile[];
	/** The folder of the mails. */
	readonly mails: string;
};

/** Reads a collection: a folder with `expected.json`, the mails in `mail/` or beside it. Throws where it is not one. */
export function readCollection(folder: string): Collection {
	const {files} = JSON.parse(readFileSync(path.join(folder, 'expected.json'), 'utf8')) as {files: ExpectedFile[]};
	const inside = path.join(folder, 'mail');
	return {files, mails: existsSync(inside) ? inside : folder};
}
