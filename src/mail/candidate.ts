/**
 * How a mail that came in leads to one of ours, in the order in which ways count (R3.14, R3.19): the first whose
 * token proves itself wins.
 */
export const vias = [
	/** It came to the unsubscribe address of a copy, and asks for nothing else than that. */
	'unsubscribe_mail',
	/** It came to the return path of a copy. */
	'return_path',
	/** It lay in a mailbox, and names a return path as whom it was for. */
	'addressee',
	/** A return path stands in it: as what the report says our envelope's sender was. */
	'mail_from',
	/** Original-Envelope-Id. */
	'envelope_id',
	/** X-Mailctl-Ref of the returned mail. */
	'ref',
	/** A Message-ID of ours: it leads to a message, not to a copy. */
	'message_id',
	/** The unsubscribe address of a copy stands in it, or it came there and asks for something else. */
	'unsubscribe_address',
	/** Without a token: the address, from a reporter that the operator trusts and whose signature is right. */
	'reporter',
] as const;
export type Via = (typeof vias)[number];

/** Whose mail it may be that came in. */
export type Candidate = {
	readonly via: Via;
	/** `rcp_…`: a copy; `msg_…`: a message. */
	readonly id: string;
	/** Whether we made the token for this id and address. The address comes from the id's row, never from outside. */
	readonly verify: (address: string) => boolean;
};
