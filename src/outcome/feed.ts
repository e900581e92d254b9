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
	/** Yields at the same rate whether new events were stored, without reading them. */
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
	const controller = new AbortController();
	const closing = controller.signal;
	const share = createSingleFlight();
	const readSettled = createSettled(reader);
	const check = () => share('check', readSettled);
	const checkAfterPause = () =>
		share('check after pause', async () => {
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
				settled = await checkAfterPause();
			}
		}
	}

	async function* watch(workspaceId: string, from: number): AsyncGenerator<boolean> {
		let position = from;
		while (!closing.aborted) {
			const [after, upTo] = [position, await checkAfterPause()];
			position = upTo;
			yield after < upTo &&
				(await share(`news ${workspaceId} ${after} ${upTo}`, () =>
					hasEvents(reader, workspaceId, {after, upTo}),
				));
		}
	}

	return {
		news: async workspaceId => watch(workspaceId, await check()),
		async open(workspaceId, after) {
			const last = after ?? (await readLastPosition(reader));
			let settled = await check();
			// Events whose transactions are already running are not new: wait until those have ended.
			while (after === null && settled < last && !closing.aborted) {
				settled = await checkAfterPause();
			}
			return follow(workspaceId, after ?? settled, settled);
		},
		closing,
		close: () => controller.abort(),
	};
}

/** Lets concurrent identical requests share one fetch. */
function createSingleFlight() {
	const inFlight = new Map<string, Promise<unknown>>();
	return <Result>(key: string, fetch: () => Promise<Result>): Promise<Result> => {
		const result = inFlight.get(key) ?? fetch().finally(() => inFlight.delete(key));
		inFlight.set(key, result);
		return result as Promise<Result>;
	};
}
