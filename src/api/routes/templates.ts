import {createTemplate, removeTemplate} from '../../admin/templates.ts';
import {findTemplate, pageTemplates} from '../../store/templates.ts';
import type {ApiParts} from '../api-parts.ts';
import {apiRoute, listRoute} from '../api-route.ts';
import {apiError} from '../errors.ts';
import {templateBody, templateSchema} from '../schemas/template.ts';
import type {Routes} from '../server.ts';
import {templateView} from '../views.ts';

type Parts = Pick<ApiParts, 'auth' | 'reader' | 'change' | 'tools' | 'cursors'>;

export function templateRoutes(parts: Parts): readonly Routes[] {
	const {reader, change} = parts;
	return [
		apiRoute(parts, {
			at: 'POST /v1/templates',
			scope: 'templates:manage',
			tag: 'Templates',
			summary: 'Make a template',
			description: 'It can be sent once it has a version.',
			answer: [201, 'The template, without a version.', templateSchema],
			errors: ['conflict'],
			body: templateBody,
			handle: async ({workspaceId, body: {id = null, name}, tools}) => {
				const created = await change(trx => createTemplate(trx, tools, workspaceId, {id, name}));
				if (typeof created === 'string') {
					throw apiError('conflict', {message: `There is a template with this ${created} already.`});
				}
				return templateView(created);
			},
		}),

		listRoute(parts, {
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
		}),

		apiRoute(parts, {
			at: 'GET /v1/templates/:id',
			scope: 'templates:read',
			id: 'tpl',
			tag: 'Templates',
			summary: 'Read a template',
			answer: [200, 'The template.', templateSchema],
			async handle({workspaceId, id}) {
				const found = await findTemplate(reader, workspaceId, {id});
				if (!found) {
					throw apiError('not_found');
				}
				return templateView(found);
			},
		}),

		apiRoute(parts, {
			at: 'DELETE /v1/templates/:id',
			scope: 'templates:manage',
			id: 'tpl',
			tag: 'Templates',
			summary: 'Delete a template',
			description: 'Mail accepted with it still goes out. Its name is free again.',
			answer: [204, 'It is gone.', null],
			async handle({workspaceId, id, tools}) {
				if (!(await change(trx => removeTemplate(trx, tools, workspaceId, id)))) {
					throw apiError('not_found');
				}
			},
		}),
	];
}
