/** How many mails that came in and could not be used are kept for review, and how many octets of them; the oldest go first. */
export const keptCaps = {mails: 10_000, bytes: 1024 ** 3} as const;

/** Octets of such a mail that are kept: its beginning says what it is. */
export const keptLength = 256 * 1024;
