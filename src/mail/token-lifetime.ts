const dayMs = 86_400_000;
/** Where messages are kept for ever. */
const longestDays = 400;

/** How long the tokens of copies count for reports, milliseconds: as long as messages are kept (MAILCTL_RETENTION_DAYS, 0: for ever). */
export function reportTokenMs(retentionDays: number): number {
	return (retentionDays || longestDays) * dayMs;
}
