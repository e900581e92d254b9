import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {createTopic, removeTopic} from '../../admin/topics.ts';
import {isId} from '../../mail/ids.ts';
import {listTopics} from '../../store/topics.ts';
import type {ApiParts} from '../api-parts.ts';
import {actAs, callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {noQuery, pageQuery, readPage} from '../paging.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import {Type} from '../schemas/type.ts';
import type {Routes} from '../server.ts';
import {topicView} from '../views.ts';

const example = {
	id: 'usg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	code: 'newsletter',
	name: 'Monthly newsletter',
	created_at: '2026-06-09T10:15:30+00:00',
};

/** A topic (docs/reference/interface.md, Subscription topic). */
const topicSchema = Type.Object(
	{
		id: Type.String(),
		code: Type.String({description: 'What sends name as `unsubscribeGroup`.'}),
		name: Type.String(),
		created_at: Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'}),
	},
	{examples: [example]},
);

/** The body of an addition. */
const topicBody = Type.Object(
	{
		code: Type.String({
			format: 'topic-code',
			description: '1 to 64 letters, digits, hyphens and underscores; unique within the workspace.',
		}),
		name: Type.String({
			format: 'label',
			description: '1 to 200 characters; recipients see it on the unsubscribe page.',
		}),
	},
	{additionalProperties: false, examples: [{code: example.code, name: example.name}]},
);

const usualLimit = 100;

/** /v1/unsubscribe-groups: what recipients can opt out of by itself. */
export function topicRoutes({auth, reader, change, tools, cursors}: ApiParts): Routes {
	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.post(
			'/v1/unsubscribe-groups',
			{
				onRequest: auth.needs('unsubscribe_groups:manage'),
				schema: {
					...describe({
						tag: 'Topics',
						summary: 'Create a topic',
						description: 'Opt-outs of an earlier topic with this code hold again.',
						answer: [201, 'The topic; sends can name its code at once.', topicSchema],
						errors: ['conflict'],
					}),
					querystring: noQuery,
					body: topicBody,
				},
			},
			async (request, reply) => {
				const {workspaceId} = callerOf(request);
				const {code, name} = request.body;
				const topic = await change(trx => createTopic(trx, actAs(tools, request), {workspaceId, code, name}));
				if (!topic) {
					throw apiError('conflict', {message: 'There is a topic with this code already.'});
				}
				return reply.code(201).send(topicView(topic));
			},
		);

		routes.get(
			'/v1/unsubscribe-groups',
			{
				onRequest: auth.needs('unsubscribe_groups:read'),
				schema: {
					...describe({
						tag: 'Topics',
						summary: 'List topics',
						description: `Pages have ${usualLimit} topics unless \`limit\` says otherwise.`,
						answer: [200, 'Topics, newest first.', pageOf(topicSchema)],
					}),
					querystring: pageQuery,
				},
			},
			async request => {
				const {workspaceId} = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit,
					cursors,
					scope: {workspaceId, route: 'topics', filters: {}},
					read: part => listTopics(reader, {workspaceId, ...part}),
				});
				return {data: page.rows.map(row => topicView(row)), next_cursor: page.nextCursor};
			},
		);

		routes.delete(
			'/v1/unsubscribe-groups/:id',
			{
				onRequest: auth.needs('unsubscribe_groups:manage'),
				schema: {
					...describe({
						tag: 'Topics',
						summary: 'Delete a topic',
						description:
							'Its opt-outs are kept by code. Unsubscribe links of mail that was tagged with it suppress the recipient for all mail from now on.',
						answer: [204, 'It is deleted.', null],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('usg'),
				},
			},
			async (request, reply) => {
				const {workspaceId} = callerOf(request);
				const {id} = request.params;
				if (!isId('usg', id) || !(await change(trx => removeTopic(trx, actAs(tools, request), workspaceId, {id})))) {
					throw apiError('not_found');
				}
				return reply.code(204).send();
			},
		);
	};
}
