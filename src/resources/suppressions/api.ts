import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import type {Static} from 'typebox';
import {type Api, type ApiParts, isPlain, type Route, refuseOtherBodies} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {requireCaller, withOperator} from '../../api/auth.ts';
import {describe} from '../../api/describe.ts';
import {pageQuery} from '../../api/paging.ts';
import {ApiError, apiError, unavailable} from '../../mail/api-error.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {Type} from '../../mail/type.ts';
import {queryAddressKey} from '../formats.ts';
import {time} from '../page-schema.ts';
import {createValidator} from '../validate.ts';
import {suppressionView} from '../views.ts';
import {addSuppression, removeSuppression} from './rules.ts';
import {listSuppressions} from './store.ts';
import {columnsOf, exportedFile, insertEntries, maxProblems, SuppressionImport} from './suppression-file.ts';

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
		recipient: Type.String({description: 'The address as written when it was added.'}),
		reason: Type.Enum([...suppressionReasons]),
		source: Type.String({
			description:
				'`api`, `one-click`, `cli`, `dashboard`, `import`, or the id of the message whose bounce or complaint caused the entry.',
		}),
		mode: Type.Enum(['live', 'test'], {
			description: '`test` entries were created by a test key and only affect messages of test keys.',
		}),
		created_at: time,
	},
	{examples: [example]},
);

const exportQuery = Type.Object(
	{reason: Type.Optional(Type.Enum([...suppressionReasons], {description: 'Only entries with this reason.'}))},
	{additionalProperties: false},
);

const listQuery = Type.Object(
	{
		...pageQuery.properties,
		recipient: Type.Optional(
			Type.String({format: 'query-recipient-email', description: 'Only the entry of this address.'}),
		),
		...exportQuery.properties,
	},
	{additionalProperties: false},
);

const createSuppressionRoute = operationRoute(addSuppression, {
	endpoint: 'POST /v1/suppressions',
	tag: 'Suppressions',
	summary: 'Suppress an address',
	description:
		'Refuses later sends to the address and stops queued messages to it. An entry created by a test key only affects messages of test keys.',
	answer: [201, 'The new entry.', suppressionSchema],
	otherAnswer: [200, 'The existing entry, unchanged: the address was already on the list.', suppressionSchema],
	isOther: ({isNew}) => !isNew,
	view: ({entry}) => suppressionView(entry),
});

const listSuppressionsRoute = listRoute({
	path: '/v1/suppressions',
	scope: 'suppressions:read',
	name: 'suppressions',
	tag: 'Suppressions',
	summary: 'List suppressed addresses',
	meaning: 'Entries, newest first.',
	defaultLimit: 25,
	item: suppressionSchema,
	query: listQuery,
	find({workspaceId, query: {recipient, reason}}, {reader}) {
		const addressKey = recipient === undefined ? undefined : queryAddressKey(recipient);
		return {
			filters: {...(addressKey !== undefined && {addressKey}), ...(reason !== undefined && {reason})},
			read: part => listSuppressions(reader, {workspaceId, addressKey, reason, ...part}),
		};
	},
	view: entry => suppressionView(entry),
});

const deleteSuppressionRoute = operationRoute(removeSuppression, {
	endpoint: 'DELETE /v1/suppressions/:id',
	id: 'sup',
	tag: 'Suppressions',
	summary: 'Remove a suppressed address',
	description:
		'The address can receive messages again. A later bounce or complaint creates a new entry. A test key can only remove entries of test keys and of `simulator.test`.',
	answer: [204, 'The entry was removed.', null],
});

/** The routes of /v1/suppressions: addresses that get no mail from the workspace. */
export const suppressionRoutes: readonly Route[] = [
	createSuppressionRoute,
	listSuppressionsRoute,
	deleteSuppressionRoute,
];

/** A larger file might not arrive within the time limit of a request. */
const maxFileBytes = 16 * 1024 * 1024;
const csvExpected = 'Send the body as text/csv, UTF-8, without a content encoding.';

const importQuery = Type.Object(
	{
		reason: Type.Optional(
			Type.Enum([...suppressionReasons], {description: 'The reason for all lines, overriding the file.'}),
		),
	},
	{additionalProperties: false},
);

const importedSchema = Type.Object(
	{
		read: Type.Integer({description: 'The number of lines, without the header.'}),
		added: Type.Integer(),
		listed: Type.Integer({description: 'Lines already on the list, which are unchanged.'}),
		bad: Type.Integer({description: 'Invalid lines, which were skipped.'}),
		columns: Type.Union([Type.Object({}), Type.Null()], {
			description: 'The columns used for `recipient`, `reason` and `created_at`; `null` if the file is empty.',
		}),
		faults: Type.Array(Type.Object({line: Type.Integer(), fault: Type.String()}), {
			description: `The errors in the first ${maxProblems} invalid lines. Line numbers start at 1.`,
		}),
	},
	{
		examples: [
			{
				read: 3,
				added: 1,
				listed: 1,
				bad: 1,
				columns: {recipient: 'Email'},
				faults: [{line: 4, fault: 'the address is missing'}],
			},
		],
	},
);

const exportRoute = apiRoute({
	endpoint: 'GET /v1/suppressions/export',
	scope: 'suppressions:read',
	tag: 'Suppressions',
	summary: 'Export suppressed addresses',
	description:
		'Returns all entries as CSV with a header, newest first. The file can be imported again. A test key exports entries of test keys, a live key all others.',
	answer: [200, 'The file.', null],
	media: 'text/csv',
	query: exportQuery,
	async handle({caller: {workspaceId, mode}, query: {reason}, request, reply}, {reader}) {
		reply.type('text/csv; charset=utf-8').header('content-disposition', 'attachment; filename="suppressions.csv"');
		return request.method === 'HEAD' ? undefined : await exportedFile(reader, {workspaceId, mode, reason});
	},
});

const importSchema = {
	...describe({
		tag: 'Suppressions',
		summary: 'Import suppressed addresses',
		description:
			'Imports a CSV file of at most 16 MiB, exported by `GET /v1/suppressions/export` or by another service. Imported lines remain even if a later line fails, and an import can be repeated safely. Entries imported with a test key only affect messages of test keys.',
		answer: [200, 'The result of the import.', importedSchema],
		errors: ['unprocessable_entity'],
	}),
	querystring: importQuery,
	consumes: ['text/csv'],
	body: Type.String({examples: ['recipient,reason\r\ngone@example.org,hard_bounce\r\n']}),
};

const importRoute: Route = parts => api => {
	api.register(async scope => {
		acceptCsv(scope);
		scope.post<{Querystring: Static<typeof importQuery>}>(
			'/v1/suppressions/import',
			{
				onRequest: parts.auth.needs('suppressions:manage'),
				bodyLimit: maxFileBytes,
				schema: importSchema,
				// The handler reads the body as a stream.
				validatorCompiler: ({schema, httpPart}) =>
					httpPart === 'body' ? () => true : createValidator(schema, httpPart),
			},
			async request => {
				if (!request.body) {
					throw apiError('bad_request', {message: 'The body must be a CSV file.'});
				}
				const release = parts.work.imports.take(requireCaller(request).workspaceId);
				if (release === undefined) {
					throw unavailable();
				}
				try {
					return await importFile(parts, request, request.query.reason);
				} finally {
					release();
					// Discards the unread rest, so that the client gets the response.
					(request.body as unknown as IncomingMessage).resume();
				}
			},
		);
	});
};

/** The routes that export and import the suppression list. */
export const suppressionFileRoutes: readonly Route[] = [importRoute, exportRoute];

async function importFile({tools, writer}: ApiParts, request: FastifyRequest, reason: SuppressionReason | undefined) {
	const {workspaceId, mode} = requireCaller(request);
	const acting = withOperator(tools, request);
	const importer = new SuppressionImport({
		acting,
		workspaceId,
		mode,
		reason,
		write: insertEntries(acting, workspaceId, writer.transaction),
	});
	const failure = await importer.read(readChunks(request.body as IncomingMessage));
	if (failure) {
		throw apiError('unprocessable_entity', {message: `The file ${failure.problem}: ${failure.fix}.`});
	}
	const {counts, bad, problems, layout} = importer;
	return {...counts, bad, columns: layout ? columnsOf(layout) : null, faults: problems};
}

function acceptCsv(scope: Api): void {
	scope.removeAllContentTypeParsers();
	scope.addContentTypeParser('text/csv', (request, payload, done) => {
		if (!isPlain(request)) {
			done(apiError('unsupported_media_type', {message: csvExpected}));
		} else if (Number(request.headers['content-length'] ?? 0) > maxFileBytes) {
			done(apiError('payload_too_large'));
		} else {
			done(null, payload);
		}
	});
	refuseOtherBodies(scope, csvExpected);
}

async function* readChunks(payload: IncomingMessage): AsyncGenerator<Uint8Array> {
	let bytes = 0;
	try {
		// With `destroyOnReturn`, an error in the middle would close the connection before the response is read.
		for await (const chunk of payload.iterator({destroyOnReturn: false})) {
			bytes += (chunk as Uint8Array).length;
			if (bytes > maxFileBytes) {
				throw apiError('payload_too_large');
			}
			yield chunk as Uint8Array;
		}
	} catch (error) {
		// Any other error means that the connection was closed within the body.
		throw error instanceof ApiError ? error : apiError('bad_request');
	}
}
