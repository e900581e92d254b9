/** A field that is wrong. */
export type Violation = {readonly field: string; readonly message: string};

/** Why a call failed: what the API answered, or that it did not answer (`status` 0). */
export class MailctlError extends Error {
	override readonly name = 'MailctlError';
	/** Of HTTP; 0: no answer came. */
	readonly status: number;
	/**
	 * Stable: switch on this. `no_answer`, `bad_answer` and `unauthorized` come from the client, all others from the
	 * API.
	 */
	readonly code: string;
	/** Names the request in the server's log, `req_…`; null: no answer came. */
	readonly requestId: string | null;
	/** The fields at fault, with code `validation_failed`. */
	readonly violations: readonly Violation[];

	constructor(
		message: string,
		{
			status = 0,
			code,
			requestId = null,
			violations = [],
			cause,
		}: {
			readonly status?: number;
			readonly code: string;
			readonly requestId?: string | null;
			readonly violations?: readonly Violation[];
			readonly cause?: unknown;
		},
	) {
		super(message, {cause});
		this.status = status;
		this.code = code;
		this.requestId = requestId;
		this.violations = violations;
	}
}
