const periodMs = 500;

export type ChangesWatchOptions = {
	/** The generation before anything was read that is cached or queued. */
	readonly since: number;
	/** The store's change generation. */
	readonly read: () => Promise<number>;
	/** Somebody else changed something that is cached or queued. */
	readonly onChange: () => void;
	readonly onError: (error: unknown) => void;
};

/** Notices within half a second what the CLI or another node changed. */
export function watchChanges({since, read, onChange, onError}: ChangesWatchOptions): {stop: () => void} {
	let known = since;
	let asking = false;

	async function look(): Promise<void> {
		if (asking) {
			return;
		}
		asking = true;
		try {
			const generation = await read();
			if (generation !== known) {
				onChange();
			}
			known = generation;
		} catch (error) {
			onError(error);
		} finally {
			asking = false;
		}
	}

	void look();
	const timer = setInterval(() => void look(), periodMs);
	return {stop: () => clearInterval(timer)};
}
