import {setTimeout as wait} from 'node:timers/promises';
import type {Knex} from 'knex';
import {hasEvents, readStream, type StreamPart} from '../store/event-stream.ts';
import {createSettled, readLastPosition} from '../store/timeline.ts';

/** Workspaces' events as they are stored, by any process, for those who follow them. */
export type Feed = {
	/**
	 * Follows a workspace's events after a position; null: from now on. Comes back twice a second with what there is,
	 * often nothing, so that who follows can look around too. It ends when the feed is closed, and throws what the
	 * store throws.
	 */
	readonly open: (workspaceId: string, after: number | null) => Promise<AsyncIterable<StreamPart>>;
	/** Looks as often for events from now on, and says each time whether there are any. What they are is not read. */
	readonly news: (workspaceId: string) => Promise<AsyncIterable<boolean>>;
	/** Aborted by `close`. */
	readonly closing: AbortSignal;
	readonly close: () => void;
};

const defaultPause = 500;

/**
 * All followers share one query of the store, and those at the same position share the next page. Nothing is read
 * without followers, or while a follower takes nothing. `pause`: milliseconds between queries.
 */
export function createFeed(reader: Knex, pause = defaultPause): Feed {
	const closed = new AbortController();
	const closing = closed.signal;
	const share = createShared();
	const settle = createSettled(reader);
	const look = () => share('look', settle);
	const nextLook = () =>
		share('next look', async () => {
			// Closing ends the pause.
			await wait(pause, undefined, {signal: closing}).catch(() => undefined);
			return await look();
		});
	const read = (workspaceId: string, after: number, upTo: number) =>
		share(`${workspaceId} ${after} ${upTo}`, () => readStream(reader, workspaceId, {after, upTo}));

	async function* follow(workspaceId: string, after: number, upTo: number): AsyncGenerator<StreamPart> {
		let [position, settled] = [after, upTo];
		while (!closing.aborted) {
			const part: StreamPart =
				position < settled ? await read(workspaceId, position, settled) : {events: [], position};
			position = part.position;
			yield part;
			if (position >= settled) {
				settled = await nextLook();
			}
		}
	}

	async function* hearOf(workspaceId: string, from: number): AsyncGenerator<boolean> {
		let position = from;
		while (!closing.aborted) {
			const [after, upTo] = [position, await nextLook()];
			position = upTo;
			yield after < upTo &&
				(await share(`news ${workspaceId} ${after} ${upTo}`, () =>
					hasEvents(reader, workspaceId, {after, upTo}),
				));
		}
	}

	return {
		news: async workspaceId => hearOf(workspaceId, await look()),
		async open(workspaceId, after) {
			const now = after ?? (await readLastPosition(reader));
			let settled = await look();
			// What was being written is no news; all that is committed from here on is.
			while (after === null && settled < now && !closing.aborted) {
				settled = await nextLook();
			}
			return follow(workspaceId, after ?? settled, settled);
		},
		closing,
		close: () => closed.abort(),
	};
}

/** Concurrent identical requests share one fetch. */
function createShared() {
	const underWay = new Map<string, Promise<unknown>>();
	return <Result>(name: string, fetch: () => Promise<Result>): Promise<Result> => {
		const result = underWay.get(name) ?? fetch().finally(() => underWay.delete(name));
		underWay.set(name, result);
		return result as Promise<Result>;
	};
}
