/** The attachments that a send may have. */
export type AttachmentLimits = {
	readonly max: number;
	/** The maximum size of each, in octets. */
	readonly bytes: number;
};

const mebibyte = 1024 * 1024;

/** The defaults for a workspace (docs/reference/interface.md, Limits). */
export const defaultAttachments: AttachmentLimits = {max: 3, bytes: mebibyte};

/** The most that a workspace may allow. */
export const maxAttachments: AttachmentLimits = {max: 20, bytes: 25 * mebibyte};

const defaultBody = 6 * mebibyte;
/** No mail server accepts messages larger than this. */
const maxBodyLength = 64 * mebibyte;

/** Returns the maximum length of a send's body. */
export function sendBodyLimit({max, bytes}: AttachmentLimits = defaultAttachments): number {
	const extraBytes = max * bytes - defaultAttachments.max * defaultAttachments.bytes;
	return Math.min(maxBodyLength, defaultBody + Math.ceil((Math.max(0, extraBytes) * 4) / 3));
}

/** Returns the limits of a workspace, or `undefined` if it has the defaults. */
export function toLimits(row: {
	readonly max_attachments: number | null;
	readonly max_attachment_bytes: number | null;
}): AttachmentLimits | undefined {
	const {max_attachments: max, max_attachment_bytes: bytes} = row;
	return max === null && bytes === null
		? undefined
		: {max: max ?? defaultAttachments.max, bytes: bytes ?? defaultAttachments.bytes};
}
