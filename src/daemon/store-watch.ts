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
	/** It has not failed lately. */
	let calm = true;
	let stopped = false;
	let timer: NodeJS.Timeout | undefined;

	function probeNow(): void {
		probe().then(recover, probeLater);
	}

	function probeLater(): void {
		if (!stopped) {
			timer = setTimeout(probeNow, probeMs);
		}
	}

	function recover(): void {
		failing = false;
		calm = false;
		timer = setTimeout(() => {
			calm = true;
		}, probeMs).unref();
		onRecovery();
	}

	return {
		failed(error) {
			if (!isUnavailable(error)) {
				onFailure(error);
			} else if (!failing) {
				failing = true;
				onFailure(error);
				clearTimeout(timer);
				// It may have been one connection that ended: then nobody else shall wait.
				if (calm) {
					probeNow();
				} else {
					probeLater();
				}
			}
		},
		failing: () => failing,
		stop() {
			stopped = true;
			clearTimeout(timer);
		},
	};
}
