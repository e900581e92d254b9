import {webhookEventTypes} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {isListener, maxEndpoints, webhookFormats, webhookRetries} from '../../mail/webhook.ts';
import {declaration} from '../apply/declaration.ts';
import {addEndpoint, changeEndpoint, removeEndpoint, setEndpointActive} from './rules.ts';
import {type Endpoint, listEndpoints} from './store.ts';

export const declaredWebhooks = declaration({
	kind: 'webhook',
	section: 'webhooks',
	schema: Type.Object(
		{
			url: Type.String({maxLength: 2000}),
			mode: Type.Optional(Type.Enum(['live', 'test'])),
			events: Type.Array(Type.Enum([...webhookEventTypes]), {minItems: 1, maxItems: 100, uniqueItems: true}),
			active: Type.Optional(Type.Boolean()),
			format: Type.Optional(Type.Enum([...webhookFormats])),
			retry: Type.Optional(Type.Enum([...webhookRetries])),
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
	steps: {
		async add({write, tools, vault, workspaceId}, {declared: {mode = 'live', active, ...input}}) {
			return await write(async trx => {
				const added = await addEndpoint(trx, tools, vault, {workspaceId, mode, ...input});
				if (added && active === false) {
					await setEndpointActive(trx, tools, workspaceId, added.id, active);
				}
				return added && {id: added.id, signing_secret: vault.open(added.id, added.secret)};
			});
		},
		async change({write, tools, workspaceId}, {declared: {events, format, retry}, known: {id}, fields}) {
			const {active, ...others} = fields;
			const changes = {workspaceId, id, events, format, retry};
			const isThere = await write(
				async trx =>
					(Object.keys(others).length === 0 || (await changeEndpoint(trx, tools, changes))) &&
					(!active || (await setEndpointActive(trx, tools, workspaceId, id, active.to === true))),
			);
			return isThere ? {id} : undefined;
		},
		async remove({write, tools, workspaceId}, {known: {id}}) {
			return (await write(trx => removeEndpoint(trx, tools, workspaceId, id))) ? {} : undefined;
		},
	},
});

function toValues({url, mode, events, disabledAt, format, retry, id}: Endpoint) {
	const defaults = {format: format ?? ('default' as const), retry: retry ?? ('default' as const)};
	return {url, mode, events: events.toSorted(), active: disabledAt === null, ...defaults, id};
}
