import {parentPort, workerData} from 'node:worker_threads';
import {answerWrites} from '../../src/store/engine/writer-thread.ts';
import {openWriter} from '../../src/store/store.ts';
import {createNoteWrite} from './note-write.ts';

/** A thread that writes notes. */
const {file, ended} = workerData as {readonly file: string; readonly ended: SharedArrayBuffer};
const {writer, close} = await openWriter(file);
let live = 'at first';
const tell = answerWrites<string, string>(parentPort as NonNullable<typeof parentPort>, {
	ended,
	writer,
	writes: [
		createNoteWrite(({news}) => {
			if (news !== undefined) {
				tell(news);
			}
			return `thread, ${live}`;
		}),
	],
	live(next) {
		live = next;
	},
	close,
});
