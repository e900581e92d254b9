import {setTimeout as wait} from 'node:timers/promises';
import type {Knex} from 'knex';
import {hasEvents, readStream, type StreamPart} from '../store/event-stream.ts';
import {createSettled, readLastPosition} from '../store/timeline.ts';

/** The events of workspaces as any process stores them, for followers. */
export type Feed = {
	/**
	 * Follows a workspace's events after a position, or from now on if it is `null`. Yields twice a second, often
	 * nothing, so that followers can do other things. Ends when the feed is closed; throws the store's errors.
	 */
	readonly open: (workspaceId: string, after: number | null) => Promise<AsyncIterable<StreamPart>>;
	/** Yields at the same rate whether there are new events, without reading them. */
	readonly news: (workspaceId: string) => Promise<AsyncIterable<boolean>>;
	/** Aborted by `close`. */
	readonly closing: AbortSignal;
	readonly close: () => void;
};

const defaultPause = 500;

/**
 * Creates a feed. All followers share one query of the store, and those at the same position share the next page.
 * Nothing is read without followers or while a follower does not consume. `pause` is the time between queries in
 * milliseconds.
 */
export function createFeed(reader: Knex, pause = defaultPause): Feed {
	const closed = new AbortController();
	const closing = closed.signal;
	const share = createShared();
	const settle = createSettled(reader);
	const check = () => share('look', settle);
	const nextLook = () =>
		share('next look', async () => {
			// Closing ends the pause.
			await wait(pause, undefined, {signal: closing}).catch(() => undefined);
			return await check();
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
		news: async workspaceId => hearOf(workspaceId, await check()),
		async open(workspaceId, after) {
			const now = after ?? (await readLastPosition(reader));
			let settled = await check();
			// Events that were being written already are not new; those committed from here on are.
			while (after === null && settled < now && !closing.aborted) {
				settled = await nextLook();
			}
			return follow(workspaceId, after ?? settled, settled);
		},
		closing,
		close: () => closed.abort(),
	};
}

/** Lets concurrent identical requests share one fetch. */
function createShared() {
	const underWay = new Map<string, Promise<unknown>>();
	return <Result>(name: string, fetch: () => Promise<Result>): Promise<Result> => {
		const result = underWay.get(name) ?? fetch().finally(() => underWay.delete(name));
		underWay.set(name, result);
		return result as Promise<Result>;
	};
}
