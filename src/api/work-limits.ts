import {ConcurrencyLimit, createTurns} from '../kit/turns.ts';

/**
 * Limits costly work of requests. Each kind of work is limited on its own, for each workspace. Templates are untrusted
 * code, so each compilation and render runs in a thread of its own.
 */
export class WorkLimits {
	/** Each check queries several DNS servers. */
	readonly domainChecks = new ConcurrencyLimit(4);
	readonly imports = new ConcurrencyLimit(2);
	readonly webhookTests = new ConcurrencyLimit(4);
	readonly templateCompiles = createTurns();
	readonly previewRenders = createTurns();
	readonly messageRenders = createTurns();
	readonly layoutChanges = createTurns();
	/** Counting a million messages takes a second or two. */
	readonly stats = createTurns();
}
