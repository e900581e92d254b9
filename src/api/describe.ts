import type {TSchema} from 'typebox';
import Type from 'typebox';
import {type ApiErrorCode, apiErrors} from '../mail/api-error.ts';

/** The resources of the API, by which its description is grouped. */
export type Tag =
	| 'Messages'
	| 'Suppressions'
	| 'Topics'
	| 'Webhooks'
	| 'Contacts'
	| 'Templates'
	| 'Senders'
	| 'Usage'
	| 'Hosted pages'
	| 'Operation';

export type Description = {
	readonly tag: Tag;
	/** One line, an imperative. */
	readonly summary: string;
	/** What the summary leaves out; Markdown. */
	readonly description?: string;
	/** The successful answer: its status, what it means, and its body (null: it has none). */
	readonly answer: readonly [status: number, meaning: string, body: TSchema | null];
	/** Codes of the resource's own rules, besides those that any route of its kind can answer. */
	readonly errors?: readonly ApiErrorCode[];
};

/** The body of every failure but 401 (interface.md, Errors). */
export const errorEnvelope = Type.Object({
	error: Type.Object({
		code: Type.String(),
		message: Type.String(),
		request_id: Type.String(),
		violations: Type.Optional(Type.Array(Type.Object({field: Type.String(), message: Type.String()}))),
	}),
});

/**
 * What the description of the API tells of a route, to be spread into its schema beside `querystring`, `params` and `body`.
 * Answers are described, not shaped: what a view gives is sent as it is.
 */
export function describe({tag, summary, description, answer: [status, meaning, body], errors = []}: Description) {
	const response: Record<string, unknown> = {[status]: {...(body ?? {type: 'null'}), description: meaning}};
	for (const code of errors) {
		const {status: errorStatus} = apiErrors[code];
		const before = response[errorStatus] as {description: string} | undefined;
		const line = `\`${code}\`: ${apiErrors[code].message}`;
		response[errorStatus] = {...errorEnvelope, description: before ? `${before.description}\n\n${line}` : line};
	}
	return {tags: [tag], summary, ...(description !== undefined && {description}), response};
}
