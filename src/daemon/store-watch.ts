import type {Logger} from 'pino';
import {freeBytes, isDiskFull} from '../store/data-folder/data-dir.ts';
import type {Held} from '../store/data-folder/open.ts';
import {readStoreSize} from '../store/engine/dialect.ts';
import type {Store} from '../store/store.ts';
import type {Context} from './context.ts';
import {FileGuard} from './file-guard.ts';
import {
	createWriting,
	exitDamaged,
	watchForStoreFaults,
	watchFreeSpace,
	watchStoreSize,
	watchWal,
} from './store-faults.ts';

type WatchOptions = Pick<Context, 'settings' | 'live' | 'boot' | 'eventWriter'> & {
	readonly held: Held;
	readonly logger: Logger;
};

/** The store that the daemon writes to, and the watches of its faults, its files and its disk. */
export class StoreWatch {
	readonly store: Store;
	readonly writing: ReturnType<typeof createWriting>;
	readonly space: ReturnType<typeof watchFreeSpace>;
	readonly sizes: ReturnType<typeof watchStoreSize>;
	/** A read or write of the store failed. */
	readonly failed = (error: unknown): void => {
		// A removed file explains what SQLite reports.
		void this.#files.check();
		if (!this.#files.isDisplaced()) {
			this.#problems.failed(error);
		}
	};
	readonly #problems: ReturnType<typeof watchForStoreFaults>;
	readonly #files: FileGuard;
	readonly #wal: ReturnType<typeof watchWal> | null | undefined;

	constructor({settings, live, held, boot, eventWriter, logger}: WatchOptions) {
		const {dataDir} = settings;
		const {store, secrets: keys} = held;
		this.writing = createWriting({settings, live, store, boot, eventWriter, logger});
		const {writer} = this.writing;
		this.store = {...store, writer, ...(store.agreeing === store.writer && {agreeing: writer})};
		this.#problems = watchForStoreFaults(this.store, logger, () => isDiskFull(dataDir));
		this.#files = new FileGuard({store, dataDir, keys, logger, exit: exitDamaged});
		this.space = watchFreeSpace(
			() => freeBytes(dataDir),
			() => live().minFreeDisk,
			logger,
		);
		this.#wal = store.wal && watchWal({wal: store.wal, logger, storeFailed: this.failed});
		this.sizes = watchStoreSize(() => readStoreSize(store.reader), store.clock.now, this.failed);
	}

	/** Whether the store cannot be written now. */
	isFailing(): boolean {
		return this.#files.isDisplaced() || this.#problems.failing();
	}

	async stop(): Promise<void> {
		await this.#wal?.stop();
		await this.writing.stop();
		this.#problems.stop();
		await this.#files.stop();
		this.space.stop();
		void this.sizes.stop();
	}
}
