import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {createTemplate, removeTemplate} from '../../admin/templates.ts';
import {isTemplateId} from '../../mail/ids.ts';
import {findTemplate, pageTemplates} from '../../store/templates.ts';
import type {ApiParts} from '../api-parts.ts';
import {actAs, callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {listRoute} from '../operation-route.ts';
import {noQuery} from '../paging.ts';
import {idParams} from '../schemas/page.ts';
import {templateBody, templateSchema} from '../schemas/template.ts';
import type {Routes} from '../server.ts';
import {templateView} from '../views.ts';

type Parts = Pick<ApiParts, 'auth' | 'reader' | 'change' | 'tools' | 'cursors'>;

export function templateRoutes({auth, reader, change, tools, cursors}: Parts): Routes {
	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.post(
			'/v1/templates',
			{
				onRequest: auth.needs('templates:manage'),
				schema: {
					...describe({
						tag: 'Templates',
						summary: 'Make a template',
						description: 'It can be sent once it has a version.',
						answer: [201, 'The template, without a version.', templateSchema],
						errors: ['conflict'],
					}),
					querystring: noQuery,
					body: templateBody,
				},
			},
			async (request, reply) => {
				const {workspaceId} = callerOf(request);
				const {id = null, name} = request.body;
				const created = await change(trx => createTemplate(trx, actAs(tools, request), workspaceId, {id, name}));
				if (typeof created === 'string') {
					throw apiError('conflict', {message: `There is a template with this ${created} already.`});
				}
				return reply.code(201).send(templateView(created));
			},
		);

		listRoute(
			{auth, cursors},
			{
				path: '/v1/templates',
				scope: 'templates:read',
				name: 'templates',
				tag: 'Templates',
				summary: 'List templates',
				meaning: 'Templates, newest first.',
				usualLimit: 25,
				item: templateSchema,
				find: ({workspaceId}) => ({
					async read(part) {
						const rows = await pageTemplates(reader, workspaceId, part);
						return rows.map(row => ({id: row.row_id, row}));
					},
				}),
				view: ({row}) => templateView(row),
			},
		)(api);

		routes.get(
			'/v1/templates/:id',
			{
				onRequest: auth.needs('templates:read'),
				schema: {
					...describe({
						tag: 'Templates',
						summary: 'Read a template',
						answer: [200, 'The template.', templateSchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('tpl'),
				},
			},
			async request => {
				const {id} = request.params;
				const {workspaceId} = callerOf(request);
				const found = isTemplateId(id) ? await findTemplate(reader, workspaceId, {id}) : undefined;
				if (!found) {
					throw apiError('not_found');
				}
				return templateView(found);
			},
		);

		routes.delete(
			'/v1/templates/:id',
			{
				onRequest: auth.needs('templates:manage'),
				schema: {
					...describe({
						tag: 'Templates',
						summary: 'Delete a template',
						description: 'Mail accepted with it still goes out. Its name is free again.',
						answer: [204, 'It is gone.', null],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('tpl'),
				},
			},
			async (request, reply) => {
				const {id} = request.params;
				const {workspaceId} = callerOf(request);
				if (!isTemplateId(id) || !(await change(trx => removeTemplate(trx, actAs(tools, request), workspaceId, id)))) {
					throw apiError('not_found');
				}
				return reply.code(204).send();
			},
		);
	};
}
