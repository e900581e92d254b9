import {defined} from '../../kit/collections.ts';
import {Type} from '../../mail/type.ts';
import {isListener, maxEndpoints} from '../../mail/webhook.ts';
import {declaration} from '../apply/declaration.ts';
import {performIn} from '../operation.ts';
import {addEndpoint, changeEndpoint, disableEndpoint, enableEndpoint, endpointFields, removeEndpoint} from './rules.ts';
import {type Endpoint, listEndpoints} from './store.ts';

export const declaredWebhooks = declaration({
	kind: 'webhook',
	section: 'webhooks',
	schema: Type.Object(
		{
			...endpointFields,
			mode: Type.Optional(Type.Enum(['live', 'test'])),
			active: Type.Optional(Type.Boolean()),
		},
		{additionalProperties: false},
	),
	maxItems: maxEndpoints,
	key: ['url', 'mode'],
	isRepeatable: true,
	urlField: 'url',
	defaults: {active: true, format: 'default', retry: 'default'},
	omitted: ['format', 'retry'],
	isRemovedFirst: true,
	async read(reader, workspaceId) {
		const endpoints = await listEndpoints(reader, workspaceId, {after: null, limit: maxEndpoints});
		// Listeners are skipped, because they exist only as long as the command that created them.
		return endpoints
			.filter(({url}) => !isListener(url))
			.toReversed()
			.map(toValues);
	},
	operations: [addEndpoint, changeEndpoint, enableEndpoint, disableEndpoint, removeEndpoint],
	steps: {
		async add({write, context, vault}, {declared: {mode = 'live', active = true, ...input}}) {
			return await write(async trx => {
				const {id, secret} = await performIn(addEndpoint, {...context, mode, trx}, input);
				if (!active) {
					await performIn(disableEndpoint, {...context, trx}, {id});
				}
				return {id, signing_secret: vault.open(id, secret)};
			});
		},
		async change({write, context}, {declared: {events, format, retry}, known: {id}, fields}) {
			const {active, ...changes} = fields;
			return await write(async trx => {
				const inTrx = {...context, trx};
				if (Object.keys(changes).length > 0) {
					await performIn(changeEndpoint, inTrx, {id, events, ...defined({format, retry})});
				}
				if (active) {
					await performIn(active.to === true ? enableEndpoint : disableEndpoint, inTrx, {id});
				}
				return {id};
			});
		},
		async remove({perform}, {known: {id}}) {
			await perform(removeEndpoint, {id});
			return {};
		},
	},
});

function toValues({url, mode, events, disabledAt, format, retry, id}: Endpoint) {
	const defaults = {format: format ?? ('default' as const), retry: retry ?? ('default' as const)};
	return {url, mode, events: events.toSorted(), active: disabledAt === null, ...defaults, id};
}
