import type {Route} from '../../api/api-parts.ts';
import {listRoute, operationRoute} from '../../api/api-route.ts';
import {Type} from '../../mail/type.ts';
import {time} from '../page-schema.ts';
import {topicView} from '../views.ts';
import {createTopic, removeTopic, topicFields} from './rules.ts';
import {listTopics} from './store.ts';

/** A topic (docs/reference/interface.md, Subscription topic). */
const topicSchema = Type.Object(
	{
		id: Type.String(),
		code: Type.String({description: 'The code that sends use as `unsubscribeGroup`.'}),
		name: Type.String(),
		created_at: time,
		...topicFields,
	},
	{
		examples: [
			{
				id: 'usg_01kaxq7w0c8m2v5t9d3f6h1j4n',
				code: 'newsletter',
				name: 'Monthly newsletter',
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);

const createTopicRoute = operationRoute(createTopic, {
	endpoint: 'POST /v1/unsubscribe-groups',
	tag: 'Topics',
	summary: 'Create a topic',
	description: 'Opt-outs from an earlier topic with the same code apply again.',
	answer: [201, 'The topic. Sends can use its code at once.', topicSchema],
	errors: ['conflict'],
	view: topic => topicView(topic),
});

const listTopicsRoute = listRoute({
	path: '/v1/unsubscribe-groups',
	scope: 'unsubscribe_groups:read',
	name: 'topics',
	tag: 'Topics',
	summary: 'List topics',
	description: 'A page has 100 topics unless `limit` is set.',
	meaning: 'Topics, newest first.',
	defaultLimit: 100,
	item: topicSchema,
	find: ({workspaceId}, {reader}) => ({read: part => listTopics(reader, {workspaceId, ...part})}),
	view: topic => topicView(topic),
});

const deleteTopicRoute = operationRoute(removeTopic, {
	endpoint: 'DELETE /v1/unsubscribe-groups/:id',
	id: 'usg',
	tag: 'Topics',
	summary: 'Delete a topic',
	description:
		'Its opt-outs are retained under its code. From now on, unsubscribe links in its messages suppress the recipient for all mail.',
	answer: [204, 'The topic was deleted.', null],
});

/** The routes of /v1/unsubscribe-groups: topics that recipients can opt out of one by one. */
export const topicRoutes: readonly Route[] = [createTopicRoute, listTopicsRoute, deleteTopicRoute];
