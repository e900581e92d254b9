import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import type {Static} from 'typebox';
import {columnsOf, exportedFile, insertEntries, maxFaults, SuppressionImport} from '../../admin/suppression-file.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {Type} from '../../mail/type.ts';
import {addSuppression, removeSuppression} from '../../ops/suppressions.ts';
import {listSuppressions} from '../../store/suppressions.ts';
import {type Api, type ApiParts, isPlain, type Routes, refuseOtherBodies} from '../api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../api-route.ts';
import {actAs, callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {ApiError, apiError, unavailable} from '../errors.ts';
import {pageQuery} from '../paging.ts';
import {queryAddressKey} from '../schemas/formats.ts';
import {time} from '../schemas/page.ts';
import {Seats} from '../turns.ts';
import {validatorOf} from '../validate.ts';
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
		created_at: time,
	},
	{examples: [example]},
);

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

/** /v1/suppressions: addresses that get no mail of the workspace. */
export const suppressionRoutes = (parts: ApiParts): readonly Routes[] => [
	operationRoute(parts, addSuppression, {
		at: 'POST /v1/suppressions',
		tag: 'Suppressions',
		summary: 'Suppress an address',
		description:
			'Refuses later sends to the address, and stops copies that wait in the queue. An entry that a test key makes stops mail of test keys alone.',
		answer: [201, 'The entry that was made.', suppressionSchema],
		otherAnswer: [200, 'The address was listed already; its entry, unchanged.', suppressionSchema],
		isOther: ({isNew}) => !isNew,
		view: ({entry}) => suppressionView(entry),
	}),
	listRoute(parts, {
		path: '/v1/suppressions',
		scope: 'suppressions:read',
		name: 'suppressions',
		tag: 'Suppressions',
		summary: 'List suppressed addresses',
		meaning: 'Entries, newest first.',
		defaultLimit: 25,
		item: suppressionSchema,
		query: listQuery,
		find({workspaceId}, {recipient, reason}) {
			const addressKey = recipient === undefined ? undefined : queryAddressKey(recipient);
			return {
				filters: {...(addressKey !== undefined && {addressKey}), ...(reason !== undefined && {reason})},
				read: part => listSuppressions(parts.reader, {workspaceId, addressKey, reason, ...part}),
			};
		},
		view: suppressionView,
	}),
	operationRoute(parts, removeSuppression, {
		at: 'DELETE /v1/suppressions/:id',
		id: 'sup',
		tag: 'Suppressions',
		summary: 'Remove an entry',
		description:
			'Mail to the address flows again; a later bounce or complaint makes a new entry. A test key removes entries of test keys and of `simulator.test` only.',
		answer: [204, 'It is removed.', null],
	}),
];

/** A larger one might not arrive within the time limit of a request. */
const maxFileBytes = 16 * 1024 * 1024;
/** Of one workspace, at once. */
const maxImports = 2;
const csvExpected = 'Send the body as text/csv, UTF-8, without a content encoding.';

const importQuery = Type.Object(
	{
		reason: Type.Optional(
			Type.Enum([...suppressionReasons], {description: 'The reason of every line, whatever it says.'}),
		),
	},
	{additionalProperties: false},
);

const exportQuery = Type.Object(
	{reason: Type.Optional(Type.Enum([...suppressionReasons], {description: 'Only entries made for this reason.'}))},
	{additionalProperties: false},
);

const importedSchema = Type.Object(
	{
		read: Type.Integer({description: 'Lines, without the header.'}),
		added: Type.Integer(),
		listed: Type.Integer({description: 'They were on the list already, and stay as they were.'}),
		bad: Type.Integer({description: 'They were not taken.'}),
		columns: Type.Union([Type.Object({}), Type.Null()], {
			description: 'Which column was taken for `recipient`, `reason`, `created_at`; null: the file is empty.',
		}),
		faults: Type.Array(Type.Object({line: Type.Integer(), fault: Type.String()}), {
			description: `What is wrong with the first ${maxFaults} of the bad lines, counted from 1.`,
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
				faults: [{line: 4, fault: 'it has no address'}],
			},
		],
	},
);

/** The suppression list as files. */
export function suppressionFileRoutes(parts: ApiParts): readonly Routes[] {
	const {auth, reader, writer, tools} = parts;
	const seats = new Seats(maxImports);

	async function importFile(request: FastifyRequest, reason: SuppressionReason | undefined) {
		const {workspaceId, mode} = callerOf(request);
		const acting = actAs(tools, request);
		const reading = new SuppressionImport({
			acting,
			workspaceId,
			mode,
			reason,
			write: insertEntries(acting, workspaceId, writer.transaction),
		});
		const wrong = await reading.read(chunksOf(request.body as IncomingMessage));
		if (wrong) {
			throw apiError('unprocessable_entity', {message: `The file ${wrong.fault}: ${wrong.fix}.`});
		}
		const {counts, bad, faults, layout} = reading;
		return {...counts, bad, columns: layout ? columnsOf(layout) : null, faults};
	}

	const exportRoute = apiRoute(parts, {
		at: 'GET /v1/suppressions/export',
		scope: 'suppressions:read',
		tag: 'Suppressions',
		summary: 'Export suppressed addresses',
		description:
			'All entries as CSV, newest first, with a header; an import reads it again. A test key exports entries of test keys, a live key all others.',
		answer: [200, 'The file.', null],
		media: 'text/csv',
		query: exportQuery,
		async handle({caller: {workspaceId, mode}, query: {reason}, request, reply}) {
			reply
				.type('text/csv; charset=utf-8')
				.header('content-disposition', 'attachment; filename="suppressions.csv"');
			return request.method === 'HEAD' ? undefined : await exportedFile(reader, {workspaceId, mode, reason});
		},
	});

	const importRoute: Routes = api => {
		api.register(async scope => {
			acceptCsv(scope);
			scope.post<{Querystring: Static<typeof importQuery>}>(
				'/v1/suppressions/import',
				{
					onRequest: auth.needs('suppressions:manage'),
					bodyLimit: maxFileBytes,
					schema: {
						...describe({
							tag: 'Suppressions',
							summary: 'Import suppressed addresses',
							description:
								'A CSV file of at most 16 MiB, as `GET /v1/suppressions/export` or other services write it. Lines that are taken stay, whatever comes after them; repeating an import changes nothing. A test key makes entries that stop mail of test keys alone.',
							answer: [200, 'What became of the lines.', importedSchema],
							errors: ['unprocessable_entity'],
						}),
						querystring: importQuery,
						consumes: ['text/csv'],
						body: Type.String({examples: ['recipient,reason\r\ngone@example.org,hard_bounce\r\n']}),
					},
					// The body is read as it comes.
					validatorCompiler: ({schema, httpPart}) =>
						httpPart === 'body' ? () => true : validatorOf(schema, httpPart),
				},
				async request => {
					if (!request.body) {
						throw apiError('bad_request', {message: 'A CSV file is expected as the body.'});
					}
					const leave = seats.take(callerOf(request).workspaceId);
					if (leave === undefined) {
						throw unavailable();
					}
					try {
						return await importFile(request, request.query.reason);
					} finally {
						leave();
						// What was not read is dropped, so that the client gets its answer.
						(request.body as unknown as IncomingMessage).resume();
					}
				},
			);
		});
	};

	return [importRoute, exportRoute];
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

async function* chunksOf(payload: IncomingMessage): AsyncGenerator<Uint8Array> {
	let bytes = 0;
	try {
		// Else a refusal in the middle would end the connection before it is read.
		for await (const chunk of payload.iterator({destroyOnReturn: false})) {
			bytes += (chunk as Uint8Array).length;
			if (bytes > maxFileBytes) {
				throw apiError('payload_too_large');
			}
			yield chunk as Uint8Array;
		}
	} catch (error) {
		// The connection ended within the body.
		throw error instanceof ApiError ? error : apiError('bad_request');
	}
}
