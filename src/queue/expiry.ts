import type {Clock} from '../kit/clock.ts';
import {endOfLife, lifetimeOf, type OwnRetry, type Retry} from '../mail/retry.ts';
import type {AgedRecipient} from '../store/queue/claims.ts';
import type {QueueObserver} from './queue-observer.ts';

export type ExpiryOptions = {
	readonly retry: () => Retry;
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
	/** The shortest lifetime that a workspace or a destination has of its own, milliseconds; null: none has one. */
	readonly readShortestLifetime: () => Promise<number | null>;
	/** A page of the oldest recipients in the queue: behind the id `after`, of those accepted before `before` (milliseconds). */
	readonly readAged: (page: {
		readonly after: string;
		readonly before: number;
		readonly limit: number;
	}) => Promise<readonly AgedRecipient[]>;
	readonly clock: Clock;
	/** Whether outcomes can be stored now. */
	readonly canStore: () => boolean;
	/** Ends recipients past their lifetime, except those being tried or held. */
	readonly end: (ids: readonly string[]) => Promise<void>;
	readonly observer: Pick<QueueObserver, 'storeFailed'>;
};

const [restMs, longestRestMs] = [1000, 60_000];
/** A pass that looked at many recipients rests longer, a millisecond for each of these: the store is there for the mail. */
const recipientsPerRestMs = 20;
const recipientsPerPage = 1000;
const recipientsPerEnd = 100;

/** Ends recipients past their lifetime that wait: for their turn, their site, an operator. One that is being tried ends with its try. */
export function createExpiry(options: ExpiryOptions) {
	const {retry, readShortestLifetime, readAged, clock, canStore, end, observer} = options;
	let timer: NodeJS.Timeout | undefined;
	let pass: Promise<void> = Promise.resolve();
	let stopped = false;

	/** Answers how many recipients it looked at. */
	async function look(): Promise<number> {
		let looked = 0;
		const now = clock.now();
		const {lifetime} = retry();
		const before = now - Math.min(lifetime, (await readShortestLifetime()) ?? lifetime);
		for (let after = ''; !stopped && canStore(); ) {
			const page = await readAged({after, before, limit: recipientsPerPage});
			const ends = await Promise.all(page.map(endOf));
			const over = page.filter(({goes}, index) => goes && now >= (ends[index] as number));
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

	async function endOf({acceptedAt, destination, queue_lifetime_s: ofWorkspace}: AgedRecipient): Promise<number> {
		return endOfLife(acceptedAt, lifetimeOf(await options.ownRetryOf(destination), retry().lifetime, ofWorkspace));
	}

	function schedule(afterMs: number): void {
		timer = setTimeout(() => {
			pass = look()
				.catch(error => {
					observer.storeFailed(error);
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

		/** Resolves when the pass under way is over. */
		async stop(): Promise<void> {
			stopped = true;
			clearTimeout(timer);
			await pass;
		},
	};
}
