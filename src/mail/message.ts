export type Role = 'to' | 'cc';
/** What the key was: mail of a test key never leaves the machine. */
export type Mode = 'live' | 'test';

export type Attachment = {
	readonly filename: string;
	/** A plain `type/subtype`. */
	readonly contentType: string;
	readonly content: Uint8Array;
};
