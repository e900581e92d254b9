export type Role = 'to' | 'cc';
/** What the key was: mail of a test key never leaves the machine. */
export type Mode = 'live' | 'test';

export type Attachment = {
	readonly filename: string;
	/** A plain `type/subtype`. */
	readonly contentType: string;
	readonly content: Uint8Array;
};

/** The type of the attachment that is the whole mail, as it was submitted by SMTP; callers of the API cannot name it. */
export const submittedType = 'message/rfc822';

/** The mail that was submitted; null: the message has a template. */
export function submittedSource([first]: readonly Attachment[]): Uint8Array | null {
	return first?.contentType === submittedType ? first.content : null;
}

/** A mail as it is kept: under the Message-ID that it came with. */
export function submittedFile(messageId: string | null, content: Uint8Array): Attachment {
	return {filename: messageId ?? 'submitted.eml', contentType: submittedType, content};
}

/** The Message-ID of the submitted mail; null: it had no Message-ID, or the message has a template. */
export function submittedId([first]: ReadonlyArray<Pick<Attachment, 'filename' | 'contentType'>>): string | null {
	return first?.contentType === submittedType && isMessageId(first.filename) ? first.filename : null;
}

/** Whether it is what a Message-ID field has (RFC 5322 §3.6.4), without comments and blanks. */
export function isMessageId(text: string): boolean {
	return /^<[^\s<>@]+@[^\s<>@]+>$/.test(text);
}

/** What of a mail is tracked. */
export type Tracking = {readonly opens: boolean; readonly clicks: boolean};

/** What the workspace tracks, less what the send switched off (JSON text `{opens?, clicks?}`). */
export function trackingOf({
	track_opens_at: opensAt,
	track_clicks_at: clicksAt,
	tracking,
}: {
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly tracking: string | null;
}): Tracking {
	const {opens, clicks} = tracking === null ? {} : (JSON.parse(tracking) as Partial<Tracking>);
	return {opens: opensAt !== null && opens !== false, clicks: clicksAt !== null && clicks !== false};
}

const code = /^[\w-]{1,64}$/;

/** Whether the text can be a topic's code (docs/reference/interface.md, Subscription topic). Codes are compared as they are written. */
export function isTopicCode(text: string): boolean {
	return code.test(text);
}

/** Stands where the address of an erased person stood; mail for `.invalid` goes nowhere (RFC 2606 §2). */
export const erasedAddress = 'erased@erased.invalid';
