import {once} from 'node:events';
import {type Sink, type SinkAddress, startSinkThread} from '../../src/cli/bench/measures.ts';
import type {Entry} from './books.ts';

/** A sink that knows what became of the mail of each recipient. */
export type AccountedSink = Sink & {readonly entries: () => Promise<readonly Entry[]>};

/** With a seed its replies are those of replies.ts; without one it takes all mail. */
export async function startAccountedSink(options: SinkAddress & {readonly seed?: number} = {}): Promise<AccountedSink> {
	const {thread, ...sink} = await startSinkThread(new URL('sink-thread.js', import.meta.url), options);
	return {
		...sink,
		async entries() {
			thread.postMessage(null);
			return (await once(thread, 'message'))[0] as readonly Entry[];
		},
	};
}
