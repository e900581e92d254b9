import {closeSync, fsyncSync, openSync, renameSync} from 'node:fs';
import {join} from 'node:path';
import type {Logger} from 'pino';
import {restoreSecrets, secretsFile, syncFolder} from '../config/secrets-file.ts';
import {repeated} from '../kit/clock.ts';
import {type DisplacedFile, findDisplaced} from '../kit/open-files.ts';
import {rescuedStore} from '../store/data-folder/data-dir.ts';
import {storeFile} from '../store/data-folder/open.ts';
import {checkpointLog} from '../store/engine/sqlite.ts';
import type {MasterKeys} from '../store/sealed.ts';
import {copyStore, type Store} from '../store/store.ts';

const checkMs = 1000;

type FileGuardOptions = {
	readonly store: Pick<Store, 'files' | 'database'>;
	readonly dataDir: string;
	readonly keys: MasterKeys;
	readonly logger: Pick<Logger, 'fatal' | 'error'>;
	/** Exits (74) without closing files: closing SQLite would remove the log of whichever store is there now. */
	readonly exit: () => void;
};

/**
 * Stops the daemon if a file in use was removed or replaced, or its folder moved, because everything written from then
 * on would be lost at the next start. The writer also checks after each commit, so that no commit to such a file is
 * reported as successful.
 */
export class FileGuard {
	readonly #options: FileGuardOptions;
	readonly #watch: ReturnType<typeof repeated>;
	#leaving: Promise<void> | null = null;
	#isStopped = false;

	constructor(options: FileGuardOptions) {
		this.#options = options;
		this.#watch = repeated(checkMs, this.check, () => undefined);
	}

	/** Whether files were found displaced, so that nothing may be accepted or claimed. */
	isDisplaced(): boolean {
		return this.#leaving !== null;
	}

	/** Checks at once. If something is displaced, the process exits before this resolves. */
	readonly check = async (): Promise<void> => {
		const displaced = this.#isStopped ? [] : findDisplaced(this.#options.store.files);
		if (displaced.length > 0) {
			this.#leaving ??= this.#leave(displaced);
		}
		await this.#leaving;
	};

	/** Checks one last time, because closing the files removes SQLite's logs, or those of a replacing store. */
	async stop(): Promise<void> {
		await this.#watch.stop();
		await this.check();
		this.#isStopped = true;
	}

	async #leave(displaced: readonly DisplacedFile[]): Promise<void> {
		const {dataDir, logger, exit} = this.#options;
		// The files of a moved folder are intact, and a rescued store includes its log. Neither needs further rescue.
		const cause = displaced.find(({path}) => path === dataDir || path === storeFile(dataDir));
		for (const file of cause ? [cause] : displaced) {
			const fix = await this.#save(file).catch(error => `it could not be saved (${(error as Error).message})`);
			const {path, how} = file;
			logger.fatal(
				{event: 'file_displaced', file: path, how},
				`${path} was ${how} while the daemon was running, so the daemon stops: ${fix}.`,
			);
		}
		exit();
	}

	/** Saves what only this process has. Returns what the operator has to do. */
	async #save({path, how}: DisplacedFile): Promise<string> {
		const {dataDir, keys} = this.#options;
		const file = storeFile(dataDir);
		switch (path) {
			case dataDir:
				return 'if the folder was moved, move it back or set MAILCTL_DATA_DIR to where it is now';
			case file:
				return await this.#rescueStore();
			case `${file}-wal`:
				return await this.#rescueLog(path, how);
			case `${file}-shm`:
				return 'nothing was lost; start the daemon again';
			case secretsFile(dataDir):
				restoreSecrets(dataDir, keys);
				return 'it was restored from memory; start the daemon again';
			default:
				return `nothing was lost; start the daemon again, and never remove ${join(dataDir, 'daemon.lock')}: it prevents a second daemon`;
		}
	}

	async #rescueStore(): Promise<string> {
		const {store, dataDir} = this.#options;
		const [file, rescued] = [storeFile(dataDir), rescuedStore(dataDir)];
		await copyStore(store.database, rescued);
		const handle = openSync(rescued, 'r');
		fsyncSync(handle);
		closeSync(handle);
		syncFolder(dataDir);
		return `its content was saved in ${rescued}; run mv ${rescued} ${file} && rm -f ${file}-wal ${file}-shm`;
	}

	/** Merges the log into the store, which is still in place. */
	async #rescueLog(log: string, how: DisplacedFile['how']): Promise<string> {
		if (!(await checkpointLog(this.#options.store.database))) {
			throw new Error('another connection was reading the store');
		}
		if (how === 'removed') {
			return 'its content was merged into the store; start the daemon again';
		}
		// The next start would mistake it for the log of this store.
		renameSync(log, `${log}.replaced`);
		return `its content was merged into the store; start the daemon again (the other file is now ${log}.replaced)`;
	}
}
