import {setTimeout as delay} from 'node:timers/promises';
import type {Recorded, TriedCopy} from '../outcome/record.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {storeRetryMs} from './store-retry.ts';

export type RecordingOptions = {
	readonly writer: Writer;
	readonly recordWrite: GroupWrite<Recorded, boolean>;
	/** After an outcome is on stable storage. */
	readonly onRecorded: (recorded: Recorded) => void;
	/** Its outcome was let go: somebody had taken the copy from us meanwhile. */
	readonly onLost: (copy: TriedCopy) => void;
	/** The store could not be written; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/** Writes outcomes. One that cannot be written is kept until it is, for what was sent must not be sent again. */
export function createRecording({writer, recordWrite, onRecorded, onLost, onStoreError}: RecordingOptions) {
	let unwritten = 0;

	return {
		/** Resolves once the outcome is on stable storage, or is somebody else's. */
		async record(recorded: Recorded): Promise<void> {
			for (let failed = false; ; failed = true) {
				try {
					if (await writer.submit(recordWrite, recorded)) {
						onRecorded(recorded);
					} else {
						onLost(recorded.copy);
					}
					unwritten -= failed ? 1 : 0;
					return;
				} catch (error) {
					unwritten += failed ? 0 : 1;
					onStoreError(error);
					await delay(storeRetryMs);
				}
			}
		},

		/** Whether an outcome waits for the store. */
		get failing(): boolean {
			return unwritten > 0;
		},
	};
}
