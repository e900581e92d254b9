import {mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {makeCertificate} from '../certificate.ts';
import {maildirFiles, readMaildir, type StoredMail} from '../maildir.ts';

/** A foreign mail server that takes mail for its users and puts all of it into one Maildir. */
export type Receiver = {
	readonly hostname: string;
	/** On 127.0.0.1. */
	readonly port: number;
	/** How many messages it has stored. */
	readonly count: () => Promise<number>;
	readonly mails: () => Promise<StoredMail[]>;
	readonly log: () => Promise<string>;
};

export type ReceiverOptions = {
	readonly hostname: string;
	readonly domain: string;
	/** Local parts; nobody else has a mailbox. */
	readonly users: readonly string[];
	/** The largest message it takes, in octets. */
	readonly largest?: number;
};

/** What a receiver stored in a Maildir. */
export function storedIn(maildir: string): Pick<Receiver, 'count' | 'mails'> {
	return {
		count: async () => (await maildirFiles(maildir)).length,
		mails: () => readMaildir(maildir),
	};
}

/** Writes `cert.pem` and `key.pem` for STARTTLS, self-signed, into a folder. */
export async function writeCertificate(folder: string, hostname: string): Promise<void> {
	const {cert, key} = makeCertificate(hostname);
	await mkdir(folder, {recursive: true});
	await writeFile(join(folder, 'cert.pem'), cert);
	await writeFile(join(folder, 'key.pem'), key, {mode: 0o600});
}
