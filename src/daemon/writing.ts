import process from 'node:process';
import {Worker} from 'node:worker_threads';
import {storeFile} from '../data-folder/open.ts';
import {threadLimits} from '../kit/memory.ts';
import type {Writer} from '../store/engine/writer.ts';
import {createWriterThread} from '../store/engine/writer-thread.ts';
import type {WriterData, WriterLive, WriterNews} from '../threads/store-writer.ts';
import type {Context} from './context.ts';

/** How the daemon writes: `writer` takes the place of the store's own. */
type Writing = {
	readonly writer: Writer;
	/** From now on a thread writes beside; its start takes a moment, in which the store's own writer goes on. */
	readonly start: () => void;
	/** Other settings hold. */
	readonly reload: () => void;
	/** Waits for all that was submitted. */
	readonly stop: () => Promise<void>;
};

/** With SQLite a thread writes what comes often; PostgreSQL does its work elsewhere, and needs none. */
export function createWriting({
	settings,
	live,
	store,
	boot,
	eventWriter,
}: Pick<Context, 'settings' | 'live' | 'store' | 'boot' | 'eventWriter'>): Writing {
	if (settings.databaseUrl !== null) {
		const {writer} = store;
		return {writer, start: () => undefined, reload: () => undefined, stop: writer.idle};
	}
	const liveNow = (): WriterLive => ({keyRetention: live().idempotencyRetention});
	const thread = createWriterThread<WriterLive, WriterNews>({
		own: store.writer,
		spawn: ended =>
			new Worker(new URL('../threads/store-writer.js', import.meta.url), {
				workerData: {
					file: storeFile(settings.dataDir),
					time: store.clock.memory,
					boot,
					live: liveNow(),
					ended,
				} satisfies WriterData,
				resourceLimits: threadLimits.writer,
			}),
		onNews({kind, ids}) {
			if (kind === 'due') {
				eventWriter.onDue(ids);
			} else {
				eventWriter.onCounted?.(ids);
			}
		},
		onDeath(error) {
			// As where it happens in the main thread: nothing is answered that may not be written, and the next start knows our claims.
			throw error;
		},
	});
	return {
		writer: thread.writer,
		start() {
			process.once('exit', thread.halt);
			thread.start();
		},
		reload: () => thread.obey(liveNow()),
		async stop() {
			await thread.stop();
			process.off('exit', thread.halt);
		},
	};
}
