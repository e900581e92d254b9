import {suppressionReasons} from '../../mail/suppression.ts';
import {Type} from '../../mail/type.ts';
import {addSuppression, removeSuppression} from '../../ops/suppressions.ts';
import {listSuppressions} from '../../store/suppressions.ts';
import type {ApiParts} from '../api-parts.ts';
import {listRoute, operationRoute} from '../api-route.ts';
import {pageQuery} from '../paging.ts';
import {queryAddressKey} from '../schemas/formats.ts';
import {time} from '../schemas/page.ts';
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
		usualLimit: 25,
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
