import {unavailable} from './errors.ts';

/** Does costly work one piece at a time: owners take turns, so that what one asks for holds each other up once at most. */
export type Turns = <Result>(owner: string, work: () => Promise<Result>) => Promise<Result>;

type Waiting = {readonly start: () => void};

/**
 * @param mostWaiting pieces of one owner, besides the one under way; a further one throws the API's `unavailable`
 */
export function createTurns(mostWaiting = 8): Turns {
	// A Map keeps the order in which owners came: the first one's turn is next.
	const owners = new Map<string, Waiting[]>();
	let busy = false;

	function next(): void {
		const [first] = owners;
		if (!first) {
			busy = false;
			return;
		}
		const [owner, [piece, ...rest]] = first;
		owners.delete(owner);
		if (rest.length > 0) {
			owners.set(owner, rest);
		}
		piece?.start();
	}

	function turn(owner: string): Promise<void> {
		const mine = owners.get(owner) ?? [];
		if (mine.length >= mostWaiting) {
			throw unavailable();
		}
		return new Promise(resolve => owners.set(owner, [...mine, {start: resolve}]));
	}

	return async (owner, work) => {
		if (busy) {
			await turn(owner);
		}
		busy = true;
		try {
			return await work();
		} finally {
			next();
		}
	};
}
