import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {manualEntry, removeSuppression, suppressWrite} from '../../admin/suppressions.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import {isId} from '../../mail/ids.ts';
import {suppressionReasons} from '../../mail/suppression.ts';
import {Type} from '../../mail/type.ts';
import {listSuppressions} from '../../store/suppressions.ts';
import type {ApiParts} from '../api-parts.ts';
import {actAs, callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {noQuery, pageQuery, readPage} from '../paging.ts';
import {queryAddressKey} from '../schemas/formats.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import type {Routes} from '../server.ts';
import {suppressionView} from '../views.ts';

const example = {
	id: 'sup_01kaxq7w0c8m2v5t9d3f6h1j4n',
	recipient: 'gone@example.org',
	reason: 'manual',
	source: 'api',
	mode: 'live',
	created_at: '2026-06-09T10:15:30+00:00',
};

/** An entry of the suppression list (docs/reference/interface.md, Suppression entry). */
const suppressionSchema = Type.Object(
	{
		id: Type.String(),
		recipient: Type.String({description: 'As it was spelled when it was added.'}),
		reason: Type.Enum([...suppressionReasons]),
		source: Type.String({
			description:
				'`api`, `one-click`, `cli`, `dashboard`, `import`, or the id of the message whose bounce or complaint made the entry.',
		}),
		mode: Type.Enum(['live', 'test'], {
			description: '`test`: a test key made it, and it stops mail of test keys alone.',
		}),
		created_at: Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'}),
	},
	{examples: [example]},
);

/** The body of an addition. */
const suppressionBody = Type.Object(
	{
		recipient: Type.String({
			format: 'recipient-email',
			description: 'A bare address. Upper and lower case, and the spelling of an international domain, do not matter.',
		}),
	},
	{additionalProperties: false, examples: [{recipient: 'gone@example.org'}]},
);

const usualLimit = 25;

const listQuery = Type.Object(
	{
		...pageQuery.properties,
		recipient: Type.Optional(
			Type.String({format: 'query-recipient-email', description: 'Only this address: one entry or none.'}),
		),
		reason: Type.Optional(Type.Enum([...suppressionReasons], {description: 'Only entries made for this reason.'})),
	},
	{additionalProperties: false},
);

/** /v1/suppressions: addresses that get no mail of the workspace. Sends read the list itself, so nothing is cached. */
export function suppressionRoutes({auth, reader, writer, tools, cursors}: ApiParts): Routes {
	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.post(
			'/v1/suppressions',
			{
				onRequest: auth.needs('suppressions:manage'),
				schema: {
					...describe({
						tag: 'Suppressions',
						summary: 'Suppress an address',
						description:
							'Refuses later sends to the address, and stops copies that wait in the queue. An entry that a test key makes stops mail of test keys alone.',
						answer: [201, 'The entry that was made.', suppressionSchema],
						otherAnswer: [200, 'The address was listed already; its entry, unchanged.', suppressionSchema],
					}),
					querystring: noQuery,
					body: suppressionBody,
				},
			},
			async (request, reply) => {
				const {workspaceId, mode} = callerOf(request);
				const address = checkedAddress(request.body.recipient);
				const {entry, isNew} = await writer.submit(
					suppressWrite,
					manualEntry(actAs(tools, request), {workspaceId, address, source: 'api', mode}),
				);
				return reply.code(isNew ? 201 : 200).send(suppressionView(entry));
			},
		);

		routes.get(
			'/v1/suppressions',
			{
				onRequest: auth.needs('suppressions:read'),
				schema: {
					...describe({
						tag: 'Suppressions',
						summary: 'List suppressed addresses',
						answer: [200, 'Entries, newest first.', pageOf(suppressionSchema)],
					}),
					querystring: listQuery,
				},
			},
			async request => {
				const {workspaceId} = callerOf(request);
				const {recipient, reason, ...query} = request.query;
				const addressKey = recipient === undefined ? undefined : queryAddressKey(recipient);
				const page = await readPage({
					query,
					usualLimit,
					cursors,
					scope: {
						workspaceId,
						route: 'suppressions',
						filters: {...(addressKey !== undefined && {addressKey}), ...(reason !== undefined && {reason})},
					},
					read: part => listSuppressions(reader, {workspaceId, addressKey, reason, ...part}),
				});
				return {data: page.rows.map(row => suppressionView(row)), next_cursor: page.nextCursor};
			},
		);

		routes.delete(
			'/v1/suppressions/:id',
			{
				onRequest: auth.needs('suppressions:manage'),
				schema: {
					...describe({
						tag: 'Suppressions',
						summary: 'Remove an entry',
						description:
							'Mail to the address flows again; a later bounce or complaint makes a new entry. A test key removes entries of test keys and of `simulator.test` only.',
						answer: [204, 'It is removed.', null],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('sup'),
				},
			},
			async (request, reply) => {
				const {workspaceId, mode} = callerOf(request);
				const {id} = request.params;
				const acting = actAs(tools, request);
				const removed =
					isId('sup', id) &&
					(await writer.transaction(trx => removeSuppression(trx, acting, {workspaceId, by: {id}, mode})));
				if (!removed) {
					throw apiError('not_found');
				}
				if (removed === 'live') {
					throw apiError('insufficient_scope', {message: 'A test key cannot remove an entry of live mail.'});
				}
				return reply.code(204).send();
			},
		);
	};
}

function checkedAddress(text: string): Address {
	const parsed = parseAddress(text, {utf8Local: true});
	if (!parsed.ok) {
		throw new Error('The schema lets an address pass that is none.');
	}
	return parsed.address;
}
