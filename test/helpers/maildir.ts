import {readdir, readFile} from 'node:fs/promises';
import {join} from 'node:path';

/** One message of a Maildir, as its mail server stored it. */
export type StoredMail = {
	readonly file: string;
	/** The envelope's sender, from Return-Path; empty for `<>`. */
	readonly returnPath: string;
	/** The envelope's recipient, from Delivered-To, of Exim from Envelope-to. */
	readonly deliveredTo: string;
	/** The Received headers that the servers on the way put on top, newest first. */
	readonly received: readonly string[];
	/** What the client sent, CRLF as on the wire: everything below the trace headers. */
	readonly bytes: Buffer;
};

const trace =
	/^(?<name>Return-Path|X-Original-To|Delivered-To|Envelope-to|Delivery-date|X-Greylist|Received): ?(?<value>.*(?:\n[ \t].*)*)\n/i;

/** Takes the headers away that delivery puts on top (RFC 5321 §4.4), and gives the line ends of the wire back. */
function parseStoredMail(file: string, stored: Buffer): StoredMail {
	let text = stored.toString('latin1');
	const received: string[] = [];
	const single = new Map<string, string>();
	for (let match = trace.exec(text); match; match = trace.exec(text)) {
		const {name = '', value = ''} = match.groups ?? {};
		if (name.toLowerCase() === 'received') {
			received.push(value);
		} else {
			single.set(name.toLowerCase(), value.trim());
		}

		text = text.slice(match[0].length);
	}

	return {
		file,
		returnPath: (single.get('return-path') ?? '').replace(/^<|>$/g, ''),
		deliveredTo: single.get('delivered-to') ?? single.get('envelope-to') ?? '',
		received,
		bytes: Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1'),
	};
}

/** All messages of a Maildir, oldest name first; none while the folder does not exist. */
export async function readMaildir(folder: string): Promise<StoredMail[]> {
	const mails: StoredMail[] = [];
	for (const file of await maildirFiles(folder)) {
		mails.push(parseStoredMail(file, await readFile(file)));
	}

	return mails;
}

/** The files of a Maildir's messages. A message in `tmp` is not delivered yet. */
export async function maildirFiles(folder: string): Promise<string[]> {
	const files: string[] = [];
	for (const part of ['new', 'cur']) {
		const names = await readdir(join(folder, part)).catch((error: NodeJS.ErrnoException) => {
			if (error.code === 'ENOENT') {
				return [];
			}

			throw error;
		});
		files.push(...names.sort().map(name => join(folder, part, name)));
	}

	return files;
}
