/** The state of a provider that survives a restart. Times are wall clock, in milliseconds. */
export type SavedSite = {
	/** When one message may test the provider again, or `null` if sending is not suspended. */
	readonly suspendedUntil: number | null;
	readonly reason: string | null;
	readonly waitsFor: 'suspension' | 'route' | null;
	/** What an operator can do if the provider blocks this machine. */
	readonly advice: string | null;
	/** The number of consecutive backoffs. */
	readonly step: number;
	/** The current number of connections. */
	readonly window: number;
	readonly slowUntil: number | null;
	readonly slowPerMinute: number | null;
	readonly slowConnections: number | null;
	/** The reply that asked for the lower limits. */
	readonly slowReason: string | null;
	/** `null` if the destination's limit applies. */
	readonly mailsPerSession: number | null;
};
