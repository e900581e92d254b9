import type {ApiErrorCode} from '../mail/api-error.ts';

/** What came of a send. */
export type Accepted =
	| {
			readonly ok: true;
			readonly id: string;
			/** The body of the answer, byte for byte: what an Idempotency-Key repeats. */
			readonly body: string;
			/** The message is that of an earlier send with the same Idempotency-Key. */
			readonly replayed: boolean;
	  }
	| Refused;

export type Refused = {
	readonly ok: false;
	readonly code: ApiErrorCode;
	/** The month's quota that is used up, and when that month ends (milliseconds since the epoch). */
	readonly quota?: {readonly limit: number; readonly endsAt: number};
};

export function refused(code: ApiErrorCode): Refused {
	return {ok: false, code};
}

export function accepted(id: string): Accepted {
	return {ok: true, id, body: JSON.stringify({id, status: 'accepted'}), replayed: false};
}

/** What a further send with an Idempotency-Key is answered. */
export function replayOf({id, body}: {readonly id: string; readonly body: string}, isSame: boolean): Accepted {
	return isSame ? {ok: true, id, body, replayed: true} : refused('idempotency_key_reused');
}
