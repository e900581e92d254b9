/** An invalid field. */
export type Violation = {readonly field: string; readonly message: string};

/** The error of a failed call: the response of the API, or the lack of one (`status` 0). */
export class MailctlError extends Error {
	override readonly name = 'MailctlError';
	/** The HTTP status, or 0 if there was no response. */
	readonly status: number;
	/**
	 * The error code, which does not change. `no_answer`, `bad_answer` and `unauthorized` come from the client, all
	 * others from the API.
	 */
	readonly code: string;
	/** The id of the request in the server's log, `req_…`, or `null` if there was no response. */
	readonly requestId: string | null;
	/** The invalid fields, with the code `validation_failed`. */
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
