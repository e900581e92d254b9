/** A route of the API: `{msg}` in the path stands for an id with that prefix. */
export type Route = {
	readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
	readonly path: string;
	readonly scope: string;
	/** A valid body. */
	readonly body?: object;
};

export const routes: readonly Route[] = [
	{method: 'POST', path: '/v1/messages', scope: 'messages:send', body: {}},
	{method: 'POST', path: '/v1/messages/batch', scope: 'messages:send', body: {messages: [{}]}},
	{method: 'GET', path: '/v1/messages', scope: 'messages:read'},
	{method: 'GET', path: '/v1/messages/{msg}', scope: 'messages:read'},
	{method: 'GET', path: '/v1/messages/{msg}/events', scope: 'messages:read'},
	{method: 'POST', path: '/v1/suppressions', scope: 'suppressions:manage', body: {recipient: 'route@routes.example'}},
	{method: 'GET', path: '/v1/suppressions', scope: 'suppressions:read'},
	{method: 'DELETE', path: '/v1/suppressions/{sup}', scope: 'suppressions:manage'},
	{method: 'POST', path: '/v1/unsubscribe-groups', scope: 'unsubscribe_groups:manage', body: {code: '', name: ''}},
	{method: 'GET', path: '/v1/unsubscribe-groups', scope: 'unsubscribe_groups:read'},
	{method: 'DELETE', path: '/v1/unsubscribe-groups/{usg}', scope: 'unsubscribe_groups:manage'},
	{method: 'POST', path: '/v1/webhooks', scope: 'webhooks:manage', body: {url: '', events: []}},
	{method: 'GET', path: '/v1/webhooks', scope: 'webhooks:read'},
	{method: 'DELETE', path: '/v1/webhooks/{whe}', scope: 'webhooks:manage'},
	{method: 'GET', path: '/v1/webhooks/{whe}/deliveries', scope: 'webhooks:read'},
	{method: 'POST', path: '/v1/webhooks/deliveries/{whd}/replay', scope: 'webhooks:manage', body: {}},
	{method: 'GET', path: '/v1/contacts', scope: 'contacts:read'},
	{method: 'GET', path: '/v1/contacts/{con}', scope: 'contacts:read'},
	{method: 'PATCH', path: '/v1/contacts/{con}', scope: 'contacts:manage', body: {locale: 'de'}},
	{method: 'DELETE', path: '/v1/contacts/{con}', scope: 'contacts:manage'},
	{method: 'GET', path: '/v1/usage', scope: 'usage:read'},
	{method: 'GET', path: '/v1/stats', scope: 'stats:read'},
	{method: 'POST', path: '/v1/templates', scope: 'templates:manage', body: {name: ''}},
	{method: 'GET', path: '/v1/templates', scope: 'templates:read'},
	{method: 'GET', path: '/v1/templates/{tpl}', scope: 'templates:read'},
	{method: 'DELETE', path: '/v1/templates/{tpl}', scope: 'templates:manage'},
	{
		method: 'POST',
		path: '/v1/templates/{tpl}/versions',
		scope: 'templates:manage',
		body: {variants: [{locale: null, subject: 'Hello', html: '<p>Hello</p>'}]},
	},
	{method: 'GET', path: '/v1/templates/{tpl}/versions', scope: 'templates:read'},
	{method: 'GET', path: '/v1/templates/{tpl}/versions/1', scope: 'templates:read'},
	{method: 'POST', path: '/v1/templates/{tpl}/preview', scope: 'templates:read', body: {data: {}}},
	{method: 'GET', path: '/v1/senders', scope: 'senders:read'},
	{method: 'POST', path: '/v1/senders', scope: 'senders:manage', body: {address: ''}},
	{method: 'DELETE', path: '/v1/senders/{snd}', scope: 'senders:manage'},
];

/** The path with the id of each type filled in. */
export function pathWith({path}: Route, id: (prefix: string) => string): string {
	return path.replaceAll(/\{(\w+)\}/g, (_, prefix: string) => id(prefix));
}

/** The prefix of the id in a path, if there is one. */
export function prefixIn({path}: Route): string | null {
	return /\{(\w+)\}/.exec(path)?.[1] ?? null;
}
