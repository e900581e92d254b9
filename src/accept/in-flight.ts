import {type Accepted, refused, replayOf} from './accepted.ts';
import type {Idempotency} from './idempotency.ts';

type Running = {readonly fingerprint: string; readonly outcome: Promise<Accepted>};

/**
 * Sends with an Idempotency-Key that are under way in this process. A second one with the same key waits for the first,
 * at most `waitMs`, and repeats its answer; if the first was rejected, it is judged by itself.
 */
export function createInFlight(waitMs: number) {
	const running = new Map<string, Running>();

	async function runFirst(name: string, fingerprint: string, send: () => Promise<Accepted>): Promise<Accepted> {
		const outcome = send();
		running.set(name, {fingerprint, outcome});
		try {
			return await outcome;
		} finally {
			running.delete(name);
		}
	}

	/** `name` is the key with what it is unique in. */
	return async (name: string, {fingerprint}: Idempotency, send: () => Promise<Accepted>): Promise<Accepted> => {
		if (!running.has(name)) {
			return await runFirst(name, fingerprint, send);
		}
		let timeout: NodeJS.Timeout | undefined;
		const late = new Promise<'late'>(resolve => {
			timeout = setTimeout(resolve, waitMs, 'late');
		});
		try {
			for (;;) {
				const first = running.get(name);
				if (!first) {
					return await runFirst(name, fingerprint, send);
				}
				const outcome = await Promise.race([late, first.outcome.catch(() => null)]);
				if (outcome === 'late') {
					return refused('unavailable');
				}
				if (outcome?.ok) {
					return replayOf(outcome, first.fingerprint === fingerprint);
				}
			}
		} finally {
			clearTimeout(timeout);
		}
	};
}
