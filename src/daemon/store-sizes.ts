/** How large the store was, octets. */
export type StoreSize = {readonly at: number; readonly bytes: number};

export type StoreSizes = {
	/** Since the daemon started, an hour apart, for at most 30 days; oldest first. */
	readonly past: () => readonly StoreSize[];
	readonly stop: () => void;
};

const everyMs = 60 * 60_000;
const most = 30 * 24;

/** Notes the size of the store every hour, so that its growth can be told. */
export function watchStoreSize({
	read,
	now,
	onError,
}: {
	readonly read: () => Promise<number>;
	readonly now: () => number;
	readonly onError: (error: unknown) => void;
}): StoreSizes {
	const sizes: StoreSize[] = [];

	async function look(): Promise<void> {
		try {
			sizes.push({bytes: await read(), at: now()});
			sizes.splice(0, sizes.length - most);
		} catch (error) {
			onError(error);
		}
	}

	void look();
	const timer = setInterval(() => void look(), everyMs).unref();
	return {past: () => sizes, stop: () => clearInterval(timer)};
}
