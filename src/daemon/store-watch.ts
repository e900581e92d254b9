export type StoreWatchOptions = {
	/** Writes a little; rejects while the store cannot be written. */
	readonly probe: () => Promise<void>;
	readonly isUnavailable: (error: unknown) => boolean;
	readonly onFailure: (error: unknown) => void;
	/** The store can be written again. */
	readonly onRecovery: () => void;
};

/** Whether the store can be written, learnt from whoever failed; while it cannot it is tried every second. */
export type StoreWatch = {
	/** Somebody's read or write failed. */
	readonly failed: (error: unknown) => void;
	readonly failing: () => boolean;
	readonly stop: () => void;
};

const probeMs = 1000;

export function watchStore({probe, isUnavailable, onFailure, onRecovery}: StoreWatchOptions): StoreWatch {
	let failing = false;
	let stopped = false;
	let timer: NodeJS.Timeout | undefined;

	function probeLater(): void {
		if (!stopped) {
			timer = setTimeout(() => probe().then(recover, probeLater), probeMs);
		}
	}

	function recover(): void {
		failing = false;
		onRecovery();
	}

	return {
		failed(error) {
			if (!isUnavailable(error)) {
				onFailure(error);
			} else if (!failing) {
				failing = true;
				onFailure(error);
				probeLater();
			}
		},
		failing: () => failing,
		stop() {
			stopped = true;
			clearTimeout(timer);
		},
	};
}
