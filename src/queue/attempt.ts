import {type AttemptResult, isPossibleDuplicate, mostPossibleDuplicates} from '../mail/outcome.ts';
import type {Route} from '../mail/route.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {TravelTerms} from './destination-queues.ts';

/** A finished mail, ready for the wire. */
export type Made = {
	readonly mail: Uint8Array;
	readonly subject: string;
	readonly envelopeFrom: string;
	/** The X-Mailctl-Ref token, also the ENVID of the envelope. */
	readonly ref: string;
	/** Where the first tracked link of the mail leads; null: none is tracked. */
	readonly firstLink: string | null;
	/** An address in its headers is not ASCII, the copy's own or another one's (RFC 6532). */
	readonly smtputf8: boolean;
};

/** `waitMs`: it was not tried; it may be after so long. `ours`: whatever the mail, so that it counts no try. */
export type Unmade = {
	readonly reason: string;
	readonly message: string;
	readonly waitMs?: number;
	readonly ours?: boolean;
};

export type AttemptSteps = {
	/** Renders, composes and signs in a maker thread. */
	readonly make: (recipient: Claimed) => Promise<{ok: true; made: Made} | {ok: false; unmade: Unmade}>;
	/**
	 * Hands the mail over by its way: an SMTP session in a sender thread, a captured file, the simulator. The site may have so
	 * many connections now. Past `endsAt` (milliseconds) no host is asked any more.
	 */
	readonly deliver: (
		recipient: Claimed,
		made: Made,
		route: Omit<Route, 'warmUp'>,
		connections: number,
		endsAt: number,
	) => Promise<AttemptResult>;
	/** How many of its tries before this one may have arrived. */
	readonly countDoubtful: (recipient: Claimed) => Promise<number>;
	/** The outcome is on stable storage, whatever it was. */
	readonly recorded: (recipient: Claimed) => void;
	/** Now, in the store's form. */
	readonly now: () => string;
};

export type Attempted = {
	readonly result: AttemptResult;
	/** Null: it was not rendered. */
	readonly made: Pick<Made, 'subject' | 'firstLink'> | null;
};

/** What may change while a copy waits. */
export type AttemptBounds = {
	/** Null: its site is left alone since it was claimed. */
	readonly termsNow: () => TravelTerms | null;
	/** When the copy is past its lifetime, milliseconds, and whether it is. */
	readonly endsAt: number;
	readonly isOver: () => boolean;
};

/** One try of one copy, from claim to result: nothing here writes. What is past its lifetime is released. */
export async function attempt(
	recipient: Claimed,
	{termsNow, endsAt, isOver}: AttemptBounds,
	steps: AttemptSteps,
): Promise<Attempted> {
	const unsent = (outcome: AttemptResult['outcome']): Attempted => ({
		result: {recipientId: recipient.id, outcome, attempts: [], sentAt: null, at: steps.now()},
		made: null,
	});

	if (recipient.stop) {
		return unsent({kind: 'suppressed', reason: recipient.stop}); // It may have happened since the message was accepted.
	}
	if (recipient.sender_id === null) {
		return unsent({kind: 'errored', reason: 'sender_not_available', message: 'The sender was removed or disabled.'});
	}
	if (isOver()) {
		return unsent({kind: 'released'});
	}

	const making = await steps.make(recipient);
	if (!making.ok) {
		const {reason, message, waitMs, ours} = making.unmade;
		if (waitMs === undefined) {
			return unsent({kind: 'errored', reason, message});
		}
		return ours
			? unsent({kind: 'released', reason: message, waitMs})
			: unsent({kind: 'deferred', category: 'system', reason: message, waitMs});
	}
	const terms = termsNow();
	if (terms === null || isOver()) {
		return unsent({kind: 'released'});
	}
	const {subject, firstLink} = making.made;
	const result = await steps.deliver(recipient, making.made, terms.route, terms.connections, endsAt);
	return {result: await endDoubtful(recipient, result, steps), made: {subject, firstLink}};
}

/** Each try of a mail that may have arrived may make one more of it: the recipient gets no more than so many. */
async function endDoubtful(recipient: Claimed, result: AttemptResult, steps: AttemptSteps): Promise<AttemptResult> {
	const {outcome, attempts} = result;
	const isLast =
		recipient.attempts + 1 >= mostPossibleDuplicates &&
		outcome.kind === 'deferred' &&
		attempts.some(isPossibleDuplicate) &&
		(await steps.countDoubtful(recipient)) + 1 >= mostPossibleDuplicates;
	return isLast
		? {
				...result,
				outcome: {
					kind: 'bounced',
					type: 'transient',
					category: 'network',
					reason: `4.4.2 Sent ${mostPossibleDuplicates} times, it may have arrived; last: ${outcome.reason}`,
					suppresses: false,
				},
			}
		: result;
}
