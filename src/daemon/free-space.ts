export type FreeSpaceOptions = {
	/** Bytes that the file system of the data folder has left for us. */
	readonly free: () => Promise<number>;
	/** MAILCTL_MIN_FREE_DISK; 0: none is asked for. */
	readonly least: () => number;
	/** It became too little, or enough again. */
	readonly onChange: (state: {readonly enough: boolean; readonly free: number}) => void;
};

/** Whether there is room for new mail. What must go on (outcomes, opt-outs, retention) does not ask. */
export type FreeSpace = {
	/** Looks at once; resolves when it has looked. */
	readonly look: () => Promise<void>;
	readonly enough: () => boolean;
	/** As of the last look; null where the system does not tell. */
	readonly free: () => number | null;
	readonly stop: () => void;
};

const everyMs = 1000;
/** Once too little, it is enough again with a tenth more: at the limit itself the state would change with every mail. */
const recovery = 1.1;

/** Looks every second. */
export function watchFreeSpace({free, least, onChange}: FreeSpaceOptions): FreeSpace {
	let enough = true;
	let last: number | null = null;
	let looking: Promise<void> | null = null;
	const timer = setInterval(look, everyMs).unref();

	/** A file system that does not answer is asked once. */
	function look(): Promise<void> {
		looking ??= free()
			.then(judge, () => undefined)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	function judge(bytes: number): void {
		last = bytes;
		const isEnough = bytes >= least() * (enough ? 1 : recovery);
		if (isEnough !== enough) {
			enough = isEnough;
			onChange({enough, free: bytes});
		}
	}

	return {look, enough: () => enough, free: () => last, stop: () => clearInterval(timer)};
}
