import type {Static} from 'typebox';
import type {ApiParts} from '../../api/api-parts.ts';
import {listRoute} from '../../api/api-route.ts';
import {type Caller, visibleMode} from '../../api/caller.ts';
import {pageQuery} from '../../api/paging.ts';
import {parseQueryTime, storeTime} from '../../kit/time.ts';
import {isTemplateId} from '../../mail/ids.ts';
import {recipientStates} from '../../mail/message.ts';
import {
	maxQueryTerms,
	messageIdTerm,
	metadataTerm,
	queryTerms,
	type SearchCondition,
	searchTerms,
	tagTerm,
} from '../../mail/terms.ts';
import {Type} from '../../mail/type.ts';
import {type MessageFilter, pageMessages} from '../../store/message-scan.ts';
import {csvColumns} from '../csv-lists.ts';
import {queryAddressKey} from '../formats.ts';
import {messageView} from '../views.ts';
import {messageSchema} from './schema.ts';

const messageQuery = Type.Object(
	{
		...pageQuery.properties,
		status: Type.Optional(Type.Enum(recipientStates, {description: 'Messages with this status.'})),
		recipient: Type.Optional(
			Type.String({
				format: 'query-recipient-email',
				description: 'Messages to this address, regardless of spelling.',
			}),
		),
		from: Type.Optional(Type.String({format: 'query-email', description: 'Messages from this address.'})),
		templateId: Type.Optional(Type.String({description: 'Messages of this template, in any version.'})),
		subject: Type.Optional(
			Type.String({
				format: 'subject-words',
				description:
					'Messages whose rendered subject contains all of these words, at most 10: whole words, in any order, ignoring case.',
			}),
		),
		q: Type.Optional(
			Type.String({
				format: 'text',
				minLength: 1,
				maxLength: 500,
				description:
					'Messages that contain each of these words in the rendered subject or as a metadata value under any key. A value may contain spaces. Case is ignored.',
			}),
		),
		metadata: Type.Optional(
			Type.Object(
				{},
				{
					maxProperties: maxQueryTerms,
					propertyNames: Type.String({format: 'metadata-key'}),
					additionalProperties: Type.String({format: 'text', maxLength: 500}),
					style: 'deepObject',
					explode: true,
					description:
						'`metadata[order_id]=1042` selects messages with this metadata value. If several are given, all must match.',
				},
			),
		),
		tag: Type.Optional(Type.String({format: 'text', description: 'Messages with this tag.'})),
		messageId: Type.Optional(
			Type.String({
				format: 'text',
				description:
					'Messages with this Message-ID, with or without angle brackets. Messages submitted over SMTP keep their own.',
			}),
		),
		mode: Type.Optional(
			Type.Enum(['live', 'test'], {
				description: 'Only messages of live keys or of test keys. A test key lists only test messages.',
			}),
		),
		scheduled: Type.Optional(
			Type.Enum(['true'], {description: 'Messages scheduled for the future and not canceled.'}),
		),
		createdAfter: Type.Optional(
			Type.String({
				format: 'time',
				description: 'Accepted at this time or later: an RFC 3339 date or date-time, UTC by default.',
			}),
		),
		createdBefore: Type.Optional(
			Type.String({
				format: 'time',
				description: 'Accepted before this time: an RFC 3339 date or date-time, UTC by default.',
			}),
		),
	},
	{additionalProperties: false},
);

export const messageListRoute = listRoute({
	path: '/v1/messages',
	scope: 'messages:read',
	name: 'messages',
	tag: 'Messages',
	summary: 'List messages',
	description:
		'Newest first. All given filters must match. A page ends early once its messages have more than 1 MiB of `data` and `metadata`. With several filters a page may contain fewer messages than `limit`, or none, and still have a `next_cursor`.',
	meaning: 'A page of messages.',
	defaultLimit: 25,
	item: messageSchema,
	query: messageQuery,
	find({caller, query}, {reader, readMessageId, tools}) {
		const {workspaceId} = caller;
		const filter = toFilter(query, caller, readMessageId);
		return {
			filters: toTexts({...filter, scheduled: query.scheduled}),
			async scan(part) {
				// A malformed template id matches nothing, so the query is skipped: PostgreSQL rejects some of them.
				// The same applies to a test key that requests live messages.
				const isMalformed = filter.templateId !== undefined && !isTemplateId(filter.templateId);
				if (isMalformed || filter.mode !== (visibleMode(caller) ?? filter.mode)) {
					return {rows: [], next: null};
				}
				const scheduledAfter = query.scheduled && storeTime(tools.clock.now());
				return await pageMessages(reader, {...filter, scheduledAfter, workspaceId}, part);
			},
		};
	},
	view: message => messageView(message),
	csv: csvColumns.messages,
});

type Filter = Omit<MessageFilter, 'workspaceId'>;
type Query = Static<typeof messageQuery>;

function toFilter(query: Query, caller: Caller, readMessageId: ApiParts['readMessageId']): Filter {
	// A Message-ID that we did not create can only belong to a message submitted over SMTP, so it is a search term.
	const id = query.messageId === undefined ? undefined : (readMessageId(query.messageId) ?? undefined);
	return {
		id,
		mode: query.mode ?? visibleMode(caller),
		status: query.status,
		toKey: query.recipient === undefined ? undefined : queryAddressKey(query.recipient),
		fromKey: query.from === undefined ? undefined : queryAddressKey(query.from),
		templateId: query.templateId,
		terms: requestedTerms(query, id === undefined ? query.messageId : undefined),
		since: query.createdAfter === undefined ? undefined : parseQueryTime(query.createdAfter),
		until: query.createdBefore === undefined ? undefined : parseQueryTime(query.createdBefore),
	};
}

/** Returns the search terms, sorted, so that a cursor stays valid if a request lists its filters in another order. */
function requestedTerms(
	{subject, q, metadata = {}, tag}: Query,
	messageId: string | undefined,
): SearchCondition[] | undefined {
	const terms: SearchCondition[] = [
		...(subject === undefined ? [] : (queryTerms(subject) ?? [])),
		...(q === undefined ? [] : searchTerms(q)),
		...Object.entries<string>(metadata as Record<string, string>).map(([key, value]) => metadataTerm(key, value)),
		...(tag === undefined ? [] : [tagTerm(tag)]),
		...(messageId === undefined ? [] : [messageIdTerm(messageId)]),
	];
	return terms.length === 0 ? undefined : terms.sort();
}

/** Returns the filters that are set as strings. A cursor is valid only with the same ones. */
export function toTexts(filter: object): Record<string, string> {
	return Object.fromEntries(
		Object.entries(filter).flatMap(([name, value]) =>
			value === undefined ? [] : [[name, typeof value === 'string' ? value : JSON.stringify(value)]],
		),
	);
}
