import {apiTime} from '../kit/time.ts';

/** What SPF, DKIM or DMARC say of a mail that came in (RFC 8601 §2.7), and of which domain they say it. */
export type Verdict = {readonly result: string; readonly domain: string | null};
export type Verdicts = Readonly<Record<'spf' | 'dkim' | 'dmarc', Verdict>>;

export type ReceivedFile = {
	readonly name: string | null;
	readonly type: string;
	readonly size: number;
	/** The html names it by this (`cid:`). */
	readonly contentId: string | null;
};

/** What lists show of a mail: JSON in the store. */
export type Summary = Verdicts & {
	/** Null: it has no From that can be read. */
	readonly from: {readonly address: string; readonly name: string | null} | null;
	/** The addresses of ours that it was for, and who the envelope says sent it: empty for a bounce. */
	readonly recipients: readonly string[];
	readonly mailFrom: string;
	readonly subject: string;
	/** A program wrote it (RFC 3834): who answers it may begin a loop. */
	readonly automatic: boolean;
	readonly files: readonly ReceivedFile[];
};

/** What it says: JSON in the store. */
export type ReceivedContent = {
	readonly text: string | null;
	readonly html: string | null;
	/** Text or html, or its header, is longer: the mail as it came has all. */
	readonly cut: boolean;
	/** In their order, with encoded words read. */
	readonly headers: ReadonlyArray<{readonly name: string; readonly value: string}>;
};

/** A mail as the reader's thread took it apart. */
export type ReadLetter = Pick<Summary, 'from' | 'subject' | 'automatic'> &
	ReceivedContent & {
		/** Addresses of its header: From, Sender and Reply-To; To and Cc. */
		readonly senders: readonly string[];
		readonly addressees: readonly string[];
		/** Message-IDs that it answers, the nearest first. */
		readonly answers: readonly string[];
		readonly files: ReadonlyArray<ReceivedFile & {readonly content: Uint8Array}>;
		/** It has several authors, or a field twice that may be there once. */
		readonly isAmbiguous: boolean;
		/** What came of each DKIM signature. */
		readonly signatures: readonly Verdict[];
		/** Why it could not be taken apart; null: it was. */
		readonly fault: string | null;
	};

/** Nothing is known of what it says. */
export const unreadLetter = (fault: string): ReadLetter => ({
	...{from: null, subject: '', automatic: false, senders: [], addressees: []},
	...{text: null, html: null, cut: false, headers: [], answers: [], files: [], isAmbiguous: false, signatures: []},
	fault,
});

/** Nobody could look at it. */
export const unjudged: Verdicts = {
	spf: {result: 'temperror', domain: null},
	dkim: {result: 'temperror', domain: null},
	dmarc: {result: 'temperror', domain: null},
};

/** The entry that takes all mail of a domain. */
export const wildcardOf = (address: string): string => `*${address.slice(address.lastIndexOf('@'))}`;

/** A mail that came in, as lists show it. */
export type Received = {
	readonly id: string;
	readonly workspaceId: string;
	/** The message that it answers. */
	readonly inReplyTo: string | null;
	/** Why it could not be read; null: it was. */
	readonly fault: string | null;
	readonly summary: Summary;
	/** Octets. */
	readonly size: number;
	/** In the store's form. */
	readonly receivedAt: string;
};

/** Who it says that it is from, for people. */
export const senderOf = ({summary: {from, mailFrom}}: Received): string =>
	from?.address ?? (mailFrom || 'the null sender');

/** What programs get of it, by the API and in webhooks. */
export function receivedView(
	{id, inReplyTo, fault, summary, size, receivedAt}: Received,
	publicUrl: string,
	time: typeof apiTime = apiTime,
) {
	const {from, recipients, mailFrom, subject, automatic, files, spf, dkim, dmarc} = summary;
	return {
		...{id, from: from?.address ?? null, from_name: from?.name ?? null, to: recipients, subject},
		...{in_reply_to: inReplyTo, automatic, spf, dkim, dmarc},
		attachments: files.map(({name, type, size: octets, contentId}, n) => ({
			...{n, name, type, size: octets, content_id: contentId},
			url: `${publicUrl.replace(/\/+$/, '')}/v1/received/${id}/attachments/${n}`,
		})),
		...{envelope_from: mailFrom, size, fault, received_at: time(receivedAt)},
	};
}

export const contentView = ({text, html, cut, headers}: ReceivedContent) => ({text, html, truncated: cut, headers});
