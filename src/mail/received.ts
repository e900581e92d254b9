import {apiTime} from '../kit/time.ts';

/** The SPF, DKIM or DMARC result for an incoming message (RFC 8601 §2.7), and the domain that it applies to. */
export type Verdict = {readonly result: string; readonly domain: string | null};
export type Verdicts = Readonly<Record<'spf' | 'dkim' | 'dmarc', Verdict>>;

export type ReceivedFile = {
	readonly name: string | null;
	readonly type: string;
	readonly size: number;
	/** The id by which the HTML references it (`cid:`). */
	readonly contentId: string | null;
};

/** What lists show of an incoming message, stored as JSON. */
export type Summary = Verdicts & {
	/** `null` if there is no readable From field. */
	readonly from: {readonly address: string; readonly name: string | null} | null;
	/** The local addresses it was sent to, and the envelope sender, which is empty for a bounce. */
	readonly recipients: readonly string[];
	readonly mailFrom: string;
	readonly subject: string;
	/** Whether a program wrote it (RFC 3834). Replying to it could start a loop. */
	readonly automatic: boolean;
	readonly files: readonly ReceivedFile[];
};

/** The content of an incoming message, stored as JSON. */
export type ReceivedContent = {
	readonly text: string | null;
	readonly html: string | null;
	/** Whether text, HTML or header were cut. The original message has everything. */
	readonly cut: boolean;
	/** In order, with encoded words decoded. */
	readonly headers: ReadonlyArray<{readonly name: string; readonly value: string}>;
};

/** An incoming message as parsed by the reader thread. */
export type ParsedMessage = Pick<Summary, 'from' | 'subject' | 'automatic'> &
	ReceivedContent & {
		/** The addresses in From, Sender and Reply-To, and those in To and Cc. */
		readonly senders: readonly string[];
		readonly addressees: readonly string[];
		/** The Message-IDs it replies to, the most recent first. */
		readonly repliedTo: readonly string[];
		readonly files: ReadonlyArray<ReceivedFile & {readonly content: Uint8Array}>;
		/** Whether it has several authors, or repeats a field that may occur only once. */
		readonly isAmbiguous: boolean;
		/** The result for each DKIM signature. */
		readonly signatures: readonly Verdict[];
		/** Why parsing failed, or `null`. */
		readonly fault: string | null;
	};

/** Returns the placeholder for a message whose content is not known. */
export const unreadableMessage = (fault: string): ParsedMessage => ({
	from: null,
	subject: '',
	automatic: false,
	senders: [],
	addressees: [],
	text: null,
	html: null,
	cut: false,
	headers: [],
	repliedTo: [],
	files: [],
	isAmbiguous: false,
	signatures: [],
	fault,
});

/** The results for a message that could not be checked. */
export const uncheckedVerdicts: Verdicts = {
	spf: {result: 'temperror', domain: null},
	dkim: {result: 'temperror', domain: null},
	dmarc: {result: 'temperror', domain: null},
};

/** Returns the address entry that receives all mail of a domain. */
export const wildcardOf = (address: string): string => `*${address.slice(address.lastIndexOf('@'))}`;

/** An incoming message as lists show it. */
export type Received = {
	readonly id: string;
	readonly workspaceId: string;
	/** The message that it replies to. */
	readonly inReplyTo: string | null;
	/** Why it could not be read, or `null`. */
	readonly fault: string | null;
	readonly summary: Summary;
	/** In octets. */
	readonly size: number;
	/** In the store's form. */
	readonly receivedAt: string;
};

/** Returns the claimed sender, for people. */
export const senderOf = ({summary: {from, mailFrom}}: Received): string =>
	from?.address ?? (mailFrom || 'the null sender');

/** Returns an incoming message as programs get it, from the API and in webhooks. */
export function receivedView(
	{id, inReplyTo, fault, summary, size, receivedAt}: Received,
	publicUrl: string,
	time: typeof apiTime = apiTime,
) {
	const {from, recipients, mailFrom, subject, automatic, files, spf, dkim, dmarc} = summary;
	return {
		id,
		from: from?.address ?? null,
		from_name: from?.name ?? null,
		to: recipients,
		subject,
		in_reply_to: inReplyTo,
		automatic,
		spf,
		dkim,
		dmarc,
		attachments: files.map(({name, type, size: octets, contentId}, n) => ({
			n,
			name,
			type,
			size: octets,
			content_id: contentId,
			url: `${publicUrl.replace(/\/+$/, '')}/v1/received/${id}/attachments/${n}`,
		})),
		envelope_from: mailFrom,
		size,
		fault,
		received_at: time(receivedAt),
	};
}

export const contentView = ({text, html, cut, headers}: ReceivedContent) => ({text, html, truncated: cut, headers});
