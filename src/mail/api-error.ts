/**
 * Every error code of the API with its status and default message (docs/reference/errors.md). A 401 has no code: its
 * body is `{"error":"Unauthorized"}`.
 */
export const apiErrors = {
	bad_request: {status: 400, message: 'The request is malformed.'},
	https_required: {status: 403, message: 'Requests with an API key must use HTTPS.'},
	insufficient_scope: {status: 403, message: 'The API key does not have the scope that this request requires.'},
	sending_paused: {status: 403, message: 'Sending is paused for this workspace.'},
	not_found: {status: 404, message: 'The resource does not exist.'},
	message_not_found: {status: 404, message: 'The message does not exist.'},
	method_not_allowed: {status: 405, message: 'This path does not support this method; see the Allow header.'},
	conflict: {status: 409, message: 'The resource already exists.'},
	not_cancellable: {status: 409, message: 'The first attempt of this message has begun, or the message has ended.'},
	idempotency_key_reused: {
		status: 409,
		message: 'This Idempotency-Key was already used with a different request body.',
	},
	payload_too_large: {status: 413, message: 'The request body is larger than this path accepts.'},
	unsupported_media_type: {status: 415, message: 'Send the body as application/json, without a content encoding.'},
	validation_failed: {status: 422, message: 'The request has invalid fields; see violations.'},
	unprocessable_entity: {status: 422, message: 'The request cannot be carried out.'},
	content_removed: {
		status: 422,
		message: 'Part of this message is no longer stored, so it cannot be sent again.',
	},
	template_required: {status: 422, message: 'A templateId is required.'},
	template_not_found: {status: 422, message: 'The template does not exist in this workspace.'},
	template_has_no_version: {status: 422, message: 'The template has no saved version.'},
	sender_not_available: {
		status: 422,
		message: 'The from address is not an active, verified sender of this workspace.',
	},
	recipient_suppressed: {status: 422, message: 'The recipient is on the suppression list.'},
	recipient_unsubscribed: {status: 422, message: 'The recipient has opted out of this topic.'},
	unknown_unsubscribe_group: {status: 422, message: 'The topic does not exist in this workspace.'},
	rate_limited: {status: 429, message: 'The rate limit of this API key was exceeded; see the RateLimit headers.'},
	quota_exceeded: {status: 429, message: 'The monthly quota of this workspace is used up.'},
	internal_error: {status: 500, message: 'Internal Server Error'},
	unavailable: {status: 503, message: 'The service cannot accept this request now; try again.'},
} as const satisfies Record<string, {readonly status: number; readonly message: string}>;

export type ApiErrorCode = keyof typeof apiErrors;

/**
 * One problem with a request. `field` is a dotted path (`attachments[0].content`), and `message` is a clause that says
 * what is allowed.
 */
export type Violation = {readonly field: string; readonly message: string};

type ApiErrorOptions = {
	/** Replaces the default message of the code. */
	readonly message?: string;
	readonly violations?: readonly Violation[];
	/** Replaces the default status of the code. */
	readonly status?: number;
	readonly headers?: Readonly<Record<string, string>>;
};

/** An error as the client sees it. Routes and hooks throw it, and `sendError` writes it. */
export class ApiError extends Error {
	readonly code: ApiErrorCode;
	readonly status: number;
	readonly violations: readonly Violation[] | undefined;
	readonly headers: Readonly<Record<string, string>>;

	constructor(code: ApiErrorCode, options: ApiErrorOptions = {}) {
		super(options.message ?? apiErrors[code].message);
		this.code = code;
		this.status = options.status ?? apiErrors[code].status;
		this.violations = options.violations;
		this.headers = options.headers ?? {};
	}
}

export function apiError(code: ApiErrorCode, options?: ApiErrorOptions): ApiError {
	return new ApiError(code, options);
}

/** Returns the Retry-After header in whole seconds, at least one. */
export function retryAfter(milliseconds: number): Record<'retry-after', string> {
	return {'retry-after': String(Math.max(1, Math.ceil(milliseconds / 1000)))};
}

const storeRetryMs = 5000;

export function unavailable(): ApiError {
	return apiError('unavailable', {headers: retryAfter(storeRetryMs)});
}

/** Returns the error for a missing or `null` body. */
export function bodyMissing(): ApiError {
	return apiError('bad_request', {message: 'The body must be a JSON object.'});
}

/** The message of a 415 on pages that receive forms. */
export const formExpected =
	'Send the body as a form, application/x-www-form-urlencoded or multipart/form-data, without a content encoding.';
