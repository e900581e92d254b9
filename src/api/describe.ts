import type {TSchema} from 'typebox';
import type {ApiErrorCode} from '../mail/api-error.ts';

/** The resources of the API, by which its description is grouped. */
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

/** The successful answer: its status, what it means, and its body (null: no body). */
export type Answer = readonly [status: number, meaning: string, body: TSchema | null];

export type Description = {
	readonly tag: Tag;
	/** One line, an imperative. */
	readonly summary: string;
	/** What the summary leaves out; Markdown. */
	readonly description?: string;
	readonly answer: Answer;
	/** Where there are two ways to succeed. */
	readonly otherAnswer?: Answer;
	/** Codes of the resource's own rules, in addition to those that any route of its kind can answer. */
	readonly errors?: readonly ApiErrorCode[];
	/**
	 * For routes that answer people: the statuses other than `answer` that also have a page as their body, and what
	 * they mean.
	 */
	readonly pages?: Readonly<Record<number, string>>;
	/** The columns of the CSV file that `answer` is where the request has `Accept: text/csv`. */
	readonly csv?: readonly string[];
	/** What `answer` holds where it is no JSON, nor a page; null: nothing. Its schema: of one message of a stream. */
	readonly media?: string | null;
};

declare module 'fastify' {
	interface FastifySchema extends Partial<Omit<Description, 'tag' | 'summary' | 'description'>> {}
}

/**
 * What the description of the API says of a route, to be spread into its schema beside `querystring`, `params` and
 * `body`. Answers are described, not shaped: what a view gives is sent as it is.
 */
export function describe({tag, errors = [], ...description}: Description) {
	return {tags: [tag], errors, ...description};
}
