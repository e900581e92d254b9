import type {TSchema} from 'typebox';
import type {ApiErrorCode} from '../mail/api-error.ts';

/** The resources by which the API description is grouped. */
type Tag =
	| 'Messages'
	| 'Events'
	| 'Suppressions'
	| 'Topics'
	| 'Webhooks'
	| 'Contacts'
	| 'Templates'
	| 'Domains'
	| 'Senders'
	| 'Usage'
	| 'Smarthosts'
	| 'Alerts'
	| 'Received mail'
	| 'Hosted pages'
	| 'Operation';

/** A successful response: its status, its meaning, and its body, or `null` if it has none. */
export type SuccessResponse = readonly [status: number, meaning: string, body: TSchema | null];

export type Description = {
	readonly tag: Tag;
	/** One line in the imperative. The operation id is derived from it, so changing it changes generated clients. */
	readonly summary: string;
	/** What the summary does not say, in Markdown. */
	readonly description?: string;
	readonly answer: SuccessResponse;
	/** A second kind of success. */
	readonly otherAnswer?: SuccessResponse;
	/** Error codes of this route, in addition to those of every route of its kind. */
	readonly errors?: readonly ApiErrorCode[];
	/** For routes that people open: the other statuses whose body is a page, with their meanings. */
	readonly pages?: Readonly<Record<number, string>>;
	/** The columns of the CSV file that is returned for `Accept: text/csv`. */
	readonly csv?: readonly string[];
	/** The media type of `answer` if it is neither JSON nor a page; `null` without a body. */
	readonly media?: string | null;
};

declare module 'fastify' {
	interface FastifySchema extends Partial<Omit<Description, 'tag' | 'summary' | 'description'>> {}
}

/**
 * Returns the description of a route, to be spread into its schema beside `querystring`, `params` and `body`. The
 * response schemas only describe: what a view returns is sent unchanged.
 */
export function describe({tag, errors = [], ...description}: Description) {
	return {tags: [tag], errors, ...description};
}
