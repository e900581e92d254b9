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
