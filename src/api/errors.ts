import type {FastifyReply, FastifyRequest} from 'fastify';
import {type ApiErrorCode, apiErrors, type Violation} from '../mail/api-error.ts';
import {Refused} from '../ops/operation.ts';

type ApiErrorOptions = {
	/** Instead of the code's usual message. */
	readonly message?: string;
	readonly violations?: readonly Violation[];
	/** Instead of the code's usual status: 408 and 431 are `bad_request`. */
	readonly status?: number;
	readonly headers?: Readonly<Record<string, string>>;
};

/** A request's end as the client sees it; thrown by routes and hooks, written by `sendError`. */
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

/** The envelope of every failure but 401 (docs/reference/errors.md). */
export function errorBody(error: ApiError, requestId: string): object {
	const {code, message, violations} = error;
	return {error: {code, message, request_id: requestId, ...(violations && {violations})}};
}

export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
	return reply.code(error.status).headers(error.headers).send(errorBody(error, reply.request.id));
}

/** The header that says when to try again: whole seconds, at least one. */
export function retryAfter(milliseconds: number): Record<'retry-after', string> {
	return {'retry-after': String(Math.max(1, Math.ceil(milliseconds / 1000)))};
}

const storeRetryMs = 5000;

export function unavailable(): ApiError {
	return apiError('unavailable', {headers: retryAfter(storeRetryMs)});
}

/** No body, or `null`, where an object is expected. */
export function bodyMissing(): ApiError {
	return apiError('bad_request', {message: 'A JSON object is expected as the body.'});
}

/** What a 415 says where people's browsers post. */
export const formExpected =
	'Send the body as a form, application/x-www-form-urlencoded or multipart/form-data, without a content encoding.';

export type ErrorReport = (request: FastifyRequest, error: unknown) => void;

/** The answer to the client for anything thrown while it was answered. What is not the client's fault is reported. */
export function toApiError(error: unknown, isUnavailable: (error: unknown) => boolean): ApiError {
	if (error instanceof ApiError) {
		return error;
	}
	if (error instanceof Refused) {
		return apiError(error.code, {message: error.message});
	}

	// fastify's own: a length that does not fit, a connection that ended within the body, an invalid media type.
	switch (statusOf(error)) {
		case 400:
			return apiError('bad_request');
		case 413:
			return apiError('payload_too_large');
		case 415:
			return apiError('unsupported_media_type');
	}

	return isUnavailable(error) ? unavailable() : apiError('internal_error');
}

function statusOf(error: unknown): number | undefined {
	return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
		? error.statusCode
		: undefined;
}
