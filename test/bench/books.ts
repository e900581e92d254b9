/** What a sink knows of a recipient. */
export type Entry = {
	readonly address: string;
	/** RCPT commands, and mails taken. */
	tries: number;
	taken: number;
	/** When the first mail was taken, or refused for good, by `monotonicMs`; 0: neither. */
	at: number;
};

/** What became of mails that were accepted, each for a recipient of its own. */
export function accountOf(accepted: number, entries: readonly Entry[]) {
	const count = (what: (entry: Entry) => boolean) => entries.filter(what).length;
	const delivered = count(({taken}) => taken > 0);
	const bounced = count(({taken, at}) => taken === 0 && at > 0);
	const delivered_later = count(({taken, tries}) => taken > 0 && tries > 1);
	const twice = count(({taken}) => taken > 1);
	return {accepted, delivered, delivered_later, bounced, lost: accepted - delivered - bounced, twice};
}
