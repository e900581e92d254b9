import {Type} from '../../mail/type.ts';
import {createTopic, removeTopic, topicFields} from '../../ops/topics.ts';
import {listTopics} from '../../store/topics.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {listRoute, operationRoute} from '../api-route.ts';
import {time} from '../schemas/page.ts';
import {topicView} from '../views.ts';

/** A topic (docs/reference/interface.md, Subscription topic). */
const topicSchema = Type.Object(
	{
		id: Type.String(),
		code: Type.String({description: 'What sends name as `unsubscribeGroup`.'}),
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

/** /v1/unsubscribe-groups: what recipients can opt out of by itself. */
export const topicRoutes = (parts: ApiParts): readonly Routes[] => [
	operationRoute(parts, createTopic, {
		at: 'POST /v1/unsubscribe-groups',
		tag: 'Topics',
		summary: 'Create a topic',
		description: 'Opt-outs of an earlier topic with this code hold again.',
		answer: [201, 'The topic; sends can name its code at once.', topicSchema],
		errors: ['conflict'],
		view: topicView,
	}),
	listRoute(parts, {
		path: '/v1/unsubscribe-groups',
		scope: 'unsubscribe_groups:read',
		name: 'topics',
		tag: 'Topics',
		summary: 'List topics',
		description: 'Pages have 100 topics unless `limit` says otherwise.',
		meaning: 'Topics, newest first.',
		defaultLimit: 100,
		item: topicSchema,
		find: ({workspaceId}) => ({read: part => listTopics(parts.reader, {workspaceId, ...part})}),
		view: topicView,
	}),
	operationRoute(parts, removeTopic, {
		at: 'DELETE /v1/unsubscribe-groups/:id',
		id: 'usg',
		tag: 'Topics',
		summary: 'Delete a topic',
		description:
			'Its opt-outs are kept by code. Unsubscribe links of mail that was tagged with it suppress the recipient for all mail from now on.',
		answer: [204, 'It is deleted.', null],
	}),
];
