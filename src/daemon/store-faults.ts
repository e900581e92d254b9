import process from 'node:process';
import type {Logger} from 'pino';
import {bumpGeneration} from '../store/changes.ts';
import type {Store} from '../store/store.ts';
import {exitSeconds, killIfStuck} from './last-resort.ts';
import {watchStore} from './store-watch.ts';

export type StoreFaults = {
	/** Somebody's read or write failed. A damaged store, or a failing disk, ends the process with exit code 74. */
	readonly noted: (error: unknown) => void;
	/** Whether the store cannot be written now. */
	readonly failing: () => boolean;
	readonly stop: () => void;
};

/** What follows where the store fails: it is logged, and tried until it can be used again. */
export function watchForStoreFaults({store, logger}: {readonly store: Store; readonly logger: Logger}): StoreFaults {
	const watch = watchStore({
		// A change of its own: an update that changes nothing writes nothing.
		probe: () => store.writer.transaction(bumpGeneration),
		isUnavailable: store.dialect.isUnavailable,
		onFailure(error) {
			logger.error({event: 'store_failed', err: error}, 'The store cannot be used; it is tried again.');
		},
		onRecovery() {
			logger.info({event: 'store_recovered'}, 'The store can be used again.');
		},
	});
	return {
		noted(error) {
			if (store.dialect.isDamage(error)) {
				logger.fatal({event: 'store_damaged', err: error}, 'The store is damaged or its disk fails: stopping.');
				killIfStuck(exitSeconds);
				process.exit(74);
			}
			watch.failed(error);
		},
		failing: watch.failing,
		stop: watch.stop,
	};
}
