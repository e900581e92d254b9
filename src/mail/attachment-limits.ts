/** What attachments a send may have. */
export type AttachmentLimits = {
	readonly most: number;
	/** Octets of each. */
	readonly bytes: number;
};

const mebibyte = 1024 * 1024;

/** Where the workspace says nothing (docs/reference/interface.md, Limits). */
export const defaultAttachments: AttachmentLimits = {most: 3, bytes: mebibyte};

/** What a workspace may allow. */
export const widestAttachments: AttachmentLimits = {most: 20, bytes: 25 * mebibyte};

const defaultBody = 6 * mebibyte;
/** A mail with more is taken nowhere. */
const maxBodyLength = 64 * mebibyte;

/** The longest body of a send. */
export function sendBodyLimit({most, bytes}: AttachmentLimits = defaultAttachments): number {
	const more = most * bytes - defaultAttachments.most * defaultAttachments.bytes;
	return Math.min(maxBodyLength, defaultBody + Math.ceil((Math.max(0, more) * 4) / 3));
}

/** The limits of a workspace; undefined: the usual ones. */
export function limitsOf(row: {
	readonly max_attachments: number | null;
	readonly max_attachment_bytes: number | null;
}): AttachmentLimits | undefined {
	const {max_attachments: most, max_attachment_bytes: bytes} = row;
	return most === null && bytes === null
		? undefined
		: {most: most ?? defaultAttachments.most, bytes: bytes ?? defaultAttachments.bytes};
}
