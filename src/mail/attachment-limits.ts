/** The attachments that a send may have. */
export type AttachmentLimits = {
	readonly most: number;
	/** The maximum size of each, in octets. */
	readonly bytes: number;
};

const mebibyte = 1024 * 1024;

/** The defaults for a workspace (docs/reference/interface.md, Limits). */
export const defaultAttachments: AttachmentLimits = {most: 3, bytes: mebibyte};

/** The most that a workspace may allow. */
export const widestAttachments: AttachmentLimits = {most: 20, bytes: 25 * mebibyte};

const defaultBody = 6 * mebibyte;
/** No mail server accepts messages larger than this. */
const maxBodyLength = 64 * mebibyte;

/** Returns the maximum length of a send's body. */
export function sendBodyLimit({most, bytes}: AttachmentLimits = defaultAttachments): number {
	const more = most * bytes - defaultAttachments.most * defaultAttachments.bytes;
	return Math.min(maxBodyLength, defaultBody + Math.ceil((Math.max(0, more) * 4) / 3));
}

/** Returns the limits of a workspace, or `undefined` if it has the defaults. */
export function toLimits(row: {
	readonly max_attachments: number | null;
	readonly max_attachment_bytes: number | null;
}): AttachmentLimits | undefined {
	const {max_attachments: most, max_attachment_bytes: bytes} = row;
	return most === null && bytes === null
		? undefined
		: {most: most ?? defaultAttachments.most, bytes: bytes ?? defaultAttachments.bytes};
}
