import type {Round} from './imap.ts';

/** A mailbox that can be opened; `wake` is called when something new may be in it, or when it is lost. */
export type Mailbox = {
	readonly open: (wake: () => void, signal: AbortSignal) => Promise<OpenMailbox>;
};

export type OpenMailbox = {
	/** Takes in what is new; rejects where the mailbox or the store fails. */
	readonly takeNew: (signal: AbortSignal) => Promise<Round>;
	/** Begins to listen for what comes. */
	readonly listen: () => void;
	/** At once; what is under way fails. */
	readonly close: () => void;
};

export type FollowOptions = {
	readonly mailbox: Mailbox;
	/** Between two looks, milliseconds. */
	readonly intervalMs: number;
	readonly onRound: (round: Round) => void;
	/** The mailbox cannot be read; it is tried again after so many milliseconds, at least. */
	readonly onFailure: (error: unknown, waitMs: number) => void;
};

/** After a failure: one second, doubled each time. */
const [firstWaitMs, longestWaitMs] = [1000, 5 * 60_000];
/** So often in a row a connection that worked may be lost without a word. */
const mostSilent = 3;
/** Servers lock out whoever fails to log in often. */
const isLockedOut = (error: unknown) => (error as {authenticationFailed?: boolean}).authenticationFailed === true;

/**
 * Follows a mailbox until it is stopped: reads what is new, waits until it is woken or the interval is over, opens it again
 * when it was lost. A connection that worked and is lost is no failure yet: whoever restarts a mail server need not be told.
 */
export function followMailbox({mailbox, intervalMs, onRound, onFailure}: FollowOptions) {
	const stopping = new AbortController();
	const {signal} = stopping;
	let opened: OpenMailbox | null = null;
	let awake = false;
	let wakeUp: () => void = () => undefined;

	function wake(): void {
		awake = true;
		wakeUp();
	}

	/** Resolves when the time is over, or at `wake` and `stop`. */
	function rest(milliseconds: number): Promise<void> {
		return new Promise(resolve => {
			const timer = setTimeout(done, milliseconds);
			wakeUp = done;
			if (awake || signal.aborted) {
				done();
			}
			function done(): void {
				clearTimeout(timer);
				wakeUp = () => undefined;
				resolve();
			}
		});
	}

	/** Reads until the mailbox is lost, and rejects then; `onRead` hears how often it was read. */
	async function read(onRead: (times: number) => void): Promise<void> {
		let lost = false;
		const current = await mailbox.open(() => lost || wake(), signal);
		opened = current;
		try {
			for (let times = 1; !signal.aborted; times++) {
				awake = false;
				onRound(await current.takeNew(signal));
				onRead(times);
				current.listen();
				await rest(intervalMs);
			}
		} finally {
			lost = true;
			current.close();
			opened = null;
		}
	}

	async function run(): Promise<void> {
		let failures = 0;
		while (!signal.aborted) {
			let worked = false;
			try {
				await read(times => {
					worked = true;
					// One that is lost at once each time is no good connection.
					failures = times > 1 ? 0 : failures;
				});
			} catch (error) {
				if (signal.aborted) {
					return;
				}
				const waitMs = isLockedOut(error) ? longestWaitMs : Math.min(firstWaitMs * 2 ** failures, longestWaitMs);
				failures++;
				if (!worked || failures > mostSilent) {
					onFailure(error, waitMs);
				}
				awake = false;
				await rest(waitMs);
			}
		}
	}

	const running = run();
	return {
		/** Resolves when nothing of it is under way any more. */
		async stop(): Promise<void> {
			stopping.abort();
			opened?.close();
			wake();
			await running;
		},
	};
}
