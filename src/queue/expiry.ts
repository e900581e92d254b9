import type {Clock} from '../kit/clock.ts';
import {endOfLife, type Retry} from '../mail/retry.ts';
import type {AgedRecipient} from '../store/queue/claims.ts';

export type ExpiryOptions = {
	readonly retry: () => Retry;
	/** The shortest lifetime of a workspace, milliseconds; null: none has one of its own. */
	readonly readShortestLifetime: () => Promise<number | null>;
	/** The oldest copies in the queue behind the one with this id, of those accepted before that moment (milliseconds). */
	readonly readAged: (page: {
		readonly after: string;
		readonly before: number;
		readonly limit: number;
	}) => Promise<readonly AgedRecipient[]>;
	readonly clock: Clock;
	/** The store could not be read; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

type Ending = {
	/** Whether outcomes can be stored now. */
	readonly canStore: () => boolean;
	/** These are past their lifetime. Those that are being tried, or held, are to be left alone. */
	readonly end: (ids: readonly string[]) => Promise<void>;
};

const [restMs, longestRestMs] = [1000, 60_000];
/** Where many copies are old, a pass looks at so many for each millisecond of the rest after it: the store is left to the mail. */
const recipientsPerRestMs = 20;
const recipientsPerPage = 1000;
const recipientsPerEnd = 100;

/**
 * Ends copies past their lifetime that wait for whatever it is: their turn, their site, an operator. Those that somebody
 * tries end when their try does.
 */
export function createExpiry(options: ExpiryOptions & Ending) {
	const {retry, readShortestLifetime, readAged, clock, canStore, end, onStoreError} = options;
	let timer: NodeJS.Timeout | undefined;
	let pass: Promise<void> = Promise.resolve();
	let stopped = false;

	/** Answers how many copies it looked at. */
	async function look(): Promise<number> {
		let looked = 0;
		const now = clock.now();
		const {lifetime} = retry();
		const before = now - Math.min(lifetime, (await readShortestLifetime()) ?? lifetime);
		for (let after = ''; !stopped && canStore(); ) {
			const page = await readAged({after, before, limit: recipientsPerPage});
			const over = page.filter(
				recipient => recipient.goes && now >= endOfLife(recipient.acceptedAt, recipient.lifetime ?? lifetime),
			);
			for (let from = 0; from < over.length; from += recipientsPerEnd) {
				await end(over.slice(from, from + recipientsPerEnd).map(({id}) => id));
			}
			looked += page.length;
			const last = page.at(-1);
			if (last === undefined || page.length < recipientsPerPage) {
				break;
			}
			after = last.id;
		}
		return looked;
	}

	function schedule(afterMs: number): void {
		timer = setTimeout(() => {
			pass = look()
				.catch(error => {
					onStoreError(error);
					return 0;
				})
				.then(looked => {
					if (!stopped) {
						schedule(Math.min(Math.max(restMs, looked / recipientsPerRestMs), longestRestMs));
					}
				});
		}, afterMs);
	}

	return {
		start: (): void => schedule(restMs),

		/** Resolves when nothing is being ended any more. */
		async stop(): Promise<void> {
			stopped = true;
			clearTimeout(timer);
			await pass;
		},
	};
}
