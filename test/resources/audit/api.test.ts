import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {listAudit} from '../../../src/resources/audit/store.ts';
import {type Answer, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {type ApiDocument, operationsOf} from '../../helpers/described.ts';
import {insertReceivedMail} from '../../helpers/received-mail.ts';
import {newId} from '../../helpers/workspace.ts';

/** One call of a route, the action that it is recorded as, and its target. */
type Act = {
	readonly action: string;
	readonly call: (api: TestApi) => Promise<readonly [Answer, target: string | null]>;
};

/** The response names what was created. */
const made = (answer: Answer) => [answer, idOf(answer)] as const;

const version = {variants: [{locale: '', subject: 'Hi', html: '<p>Hi</p>'}]};
const endpoint = {url: 'https://shop.example/hooks?secret=s3cret', events: ['delivered']};

/** Removes what this call creates. */
const opsMail = {way: 'mail', target: 'ops@shop.example'};

function removal(action: string, path: string, body: object): Act {
	return {
		action,
		async call(api) {
			const id = idOf(await api.post(path, body));
			return [await api.remove(`${path}/${id}`), id];
		},
	};
}

/** A name with letters that IDs lack, so that no random ID can contain it. */
async function contactOf(api: TestApi): Promise<string> {
	await api.send({to: 'Louis@home.example'});
	return (await api.store.reader('contacts').first()).id;
}

async function verifiedDomain(api: TestApi, name: string): Promise<void> {
	const now = storeTime(Date.now());
	const domain = {id: newId('dom'), workspace_id: api.workspace.id, name, ownership_token: 't', state: 'verified'};
	await api.store
		.database('domains')
		.insert({...domain, state_at: now, verified_at: now, created_at: now, failures: 0});
}

async function deliveryOf(api: TestApi): Promise<string> {
	const id = newId('whd');
	await api.store.database('webhook_deliveries').insert({
		id,
		workspace_id: api.workspace.id,
		endpoint_id: idOf(await api.post('/v1/webhooks', endpoint)),
		event_type: 'delivered',
		body: Buffer.from('{}'),
		state: 'exhausted',
		attempts: 5,
		generation: 0,
		created_at: storeTime(Date.now()),
	});
	return id;
}

/** Every route that changes something, in the order of the route table. */
const acts: Readonly<Record<string, Act>> = {
	'POST /v1/suppressions': {
		action: 'suppression.added',
		call: async api => made(await api.post('/v1/suppressions', {recipient: 'a@x.example'})),
	},
	'DELETE /v1/suppressions/{id}': removal('suppression.removed', '/v1/suppressions', {recipient: 'a@x.example'}),
	'POST /v1/suppressions/import': {
		action: 'suppression.imported',
		async call(api) {
			const headers = {'content-type': 'text/csv'};
			return [await api.post('/v1/suppressions/import', 'b@x.example\n', api.key, headers), null];
		},
	},
	'POST /v1/unsubscribe-groups': {
		action: 'topic.created',
		call: async api => made(await api.post('/v1/unsubscribe-groups', {code: 'news', name: 'News'})),
	},
	'DELETE /v1/unsubscribe-groups/{id}': removal('topic.removed', '/v1/unsubscribe-groups', {code: 'n', name: 'News'}),
	'POST /v1/alerts': {
		action: 'alert.added',
		call: async api => made(await api.post('/v1/alerts', opsMail)),
	},
	'POST /v1/alerts/{id}/mute': {
		action: 'alert.muted',
		async call(api) {
			const id = idOf(await api.post('/v1/alerts', opsMail));
			return [await api.post(`/v1/alerts/${id}/mute`, {for: '2h'}), id];
		},
	},
	'POST /v1/alerts/{id}/test': {
		action: 'alert.tested',
		async call(api) {
			const id = idOf(await api.post('/v1/alerts', opsMail));
			return [await api.post(`/v1/alerts/${id}/test`, {}), id];
		},
	},
	'DELETE /v1/alerts/{id}': removal('alert.removed', '/v1/alerts', opsMail),
	'POST /v1/smarthosts': {
		action: 'smarthost.added',
		call: async api => made(await api.post('/v1/smarthosts', {provider: 'ses'})),
	},
	'POST /v1/smarthosts/{id}/rotate': {
		action: 'smarthost.rotated',
		async call(api) {
			const id = idOf(await api.post('/v1/smarthosts', {provider: 'brevo'}));
			return [await api.post(`/v1/smarthosts/${id}/rotate`, {}), id];
		},
	},
	'DELETE /v1/smarthosts/{id}': removal('smarthost.removed', '/v1/smarthosts', {provider: 'postmark'}),
	'POST /v1/inbound': {
		action: 'inbound.added',
		async call(api) {
			await verifiedDomain(api, 'shop.example');
			return made(await api.post('/v1/inbound', {address: 'a@in.shop.example'}));
		},
	},
	'DELETE /v1/inbound/{id}': removal('inbound.removed', '/v1/inbound', {address: 'b@in.shop.example'}),
	'DELETE /v1/received/{id}': {
		action: 'received.deleted',
		async call(api) {
			const id = await insertReceivedMail(api.store, newId, api.workspace.id);
			return [await api.remove(`/v1/received/${id}`), id];
		},
	},
	'POST /v1/messages/{id}/cancel': {
		action: 'message.cancelled',
		async call(api) {
			const id = idOf(await api.send({}));
			return [await api.post(`/v1/messages/${id}/cancel`, undefined), id];
		},
	},
	'PATCH /v1/messages/{id}': {
		action: 'message.rescheduled',
		async call(api) {
			const id = idOf(await api.send({}));
			return [await api.patch(`/v1/messages/${id}`, {sendAt: '+2h'}), id];
		},
	},
	'PATCH /v1/contacts/{id}': {
		action: 'contact.updated',
		async call(api) {
			const id = await contactOf(api);
			return [await api.patch(`/v1/contacts/${id}`, {locale: 'de'}), id];
		},
	},
	'POST /v1/contacts/{id}/preferences-link': {
		action: 'contact.linked',
		async call(api) {
			const id = await contactOf(api);
			return [await api.post(`/v1/contacts/${id}/preferences-link`, {}), id];
		},
	},
	'DELETE /v1/contacts/{id}': {
		action: 'contact.erased',
		async call(api) {
			const id = await contactOf(api);
			return [await api.remove(`/v1/contacts/${id}`), id];
		},
	},
	'POST /v1/templates': {
		action: 'template.created',
		call: async api => made(await api.post('/v1/templates', {name: 'receipt'})),
	},
	'PATCH /v1/templates/{id}': {
		action: 'template.updated',
		async call(api) {
			const {templateId} = api.workspace;
			return [await api.patch(`/v1/templates/${templateId}`, {priority: 'high'}), templateId];
		},
	},
	'DELETE /v1/templates/{id}': removal('template.deleted', '/v1/templates', {name: 'old'}),
	'POST /v1/templates/{id}/versions': {
		action: 'template.version_created',
		async call(api) {
			const {templateId} = api.workspace;
			return [await api.post(`/v1/templates/${templateId}/versions`, version), templateId];
		},
	},
	'PUT /v1/layouts/{kind}/{name}': {
		action: 'layout.saved',
		call: async api => [await api.put('/v1/layouts/partial/sign', {files: {'sign.liquid': 'Bye'}}), 'partial/sign'],
	},
	'DELETE /v1/layouts/{kind}/{name}': {
		action: 'layout.removed',
		async call(api) {
			await api.put('/v1/layouts/partial/old', {files: {'old.liquid': ''}});
			return [await api.remove('/v1/layouts/partial/old'), 'partial/old'];
		},
	},
	'POST /v1/senders': {
		action: 'sender.added',
		call: async api => made(await api.post('/v1/senders', {address: 'b@new.example'})),
	},
	'DELETE /v1/senders/{id}': removal('sender.removed', '/v1/senders', {address: 'c@new.example'}),
	'PATCH /v1/senders/{id}': {
		action: 'sender.disabled',
		async call(api) {
			const id = idOf(await api.post('/v1/senders', {address: 'd@new.example'}));
			return [await api.patch(`/v1/senders/${id}`, {active: false}), id];
		},
	},
	'POST /v1/domains': {
		action: 'domain.added',
		call: async api => made(await api.post('/v1/domains', {name: 'one.example'})),
	},
	'POST /v1/domains/{id}/rotate-key': {
		action: 'domain.key_rotated',
		async call(api) {
			const id = idOf(await api.post('/v1/domains', {name: 'two.example'}));
			return [await api.post(`/v1/domains/${id}/rotate-key`, {}), id];
		},
	},
	'PATCH /v1/domains/{id}': {
		action: 'domain.updated',
		call: async api => {
			const id = idOf(await api.post('/v1/domains', {name: 'four.example'}));
			return [await api.patch(`/v1/domains/${id}`, {link_host: 'links.four.example'}), id];
		},
	},
	'DELETE /v1/domains/{id}': removal('domain.removed', '/v1/domains', {name: 'three.example'}),
	'PATCH /v1/webhooks/{id}': {
		action: 'webhook.updated',
		async call(api) {
			const id = idOf(await api.post('/v1/webhooks', endpoint));
			return [await api.patch(`/v1/webhooks/${id}`, {events: ['bounced']}), id];
		},
	},
	'POST /v1/webhooks': {
		action: 'webhook.created',
		call: async api => made(await api.post('/v1/webhooks', endpoint)),
	},
	'POST /v1/webhooks/{id}/rotate-secret': {
		action: 'webhook.rotated',
		async call(api) {
			const {id} = (await api.post('/v1/webhooks', endpoint)).body as {id: string};
			return [await api.post(`/v1/webhooks/${id}/rotate-secret`, {}), id];
		},
	},
	'DELETE /v1/webhooks/{id}': removal('webhook.removed', '/v1/webhooks', endpoint),
	'POST /v1/webhooks/deliveries/{id}/replay': {
		action: 'webhook.replayed',
		async call(api) {
			const id = await deliveryOf(api);
			return [await api.post(`/v1/webhooks/deliveries/${id}/replay`, {}), id];
		},
	},
};

/** Routes that add no audit entry, and why. */
const none: Readonly<Record<string, string>> = {
	'POST /v1/messages': 'a send: the message itself is the record',
	'POST /v1/messages/batch': 'sends',
	'POST /v1/messages/{id}/resend': 'a send',
	'POST /v1/domains/{id}/verify': 'asks DNS; what changes by it leaves the rows that the daemon’s own checks leave',
	'POST /v1/webhooks/{id}/test': 'changes nothing',
	'POST /v1/templates/{id}/preview': 'changes nothing',
};

sqliteTest(
	test,
	'every route that changes something adds an audit entry with actor, action, target and address',
	async (t, store) => {
		const api = await startApi(t, store, {trustProxy: ['127.0.0.1/32']});
		const document = (await (await fetch(`${api.base}/openapi.json`)).json()) as ApiDocument;
		const routes = operationsOf(document)
			.filter(({path, method}) => path.startsWith('/v1/') && method !== 'GET')
			.map(({path, method}) => `${method} ${path}`);
		t.deepEqual(routes.toSorted(), [...Object.keys(acts), ...Object.keys(none)].toSorted());

		const {id: keyId} = await store.reader('api_keys').first();
		for (const [route, {action, call}] of Object.entries(acts)) {
			const [answer, target] = await call(api);
			t.true(answer.status < 300, `${route} ${answer.text}`);
			const [entry] = await listAudit(store.reader, {workspaceId: api.workspace.id, limit: 1});
			t.like(entry, {action, target, actor: keyId, from: '127.0.0.1', workspaceId: api.workspace.id}, route);
			t.notRegex(JSON.stringify(entry), /louis|s3cret|key_live/i, route);
		}
	},
);

sqliteTest(test, 'takes the client address from a trusted proxy', async (t, store) => {
	const api = await startApi(t, store, {trustProxy: ['127.0.0.1/32']});
	const told = {'x-forwarded-for': '203.0.113.9'};
	await api.post('/v1/templates', {name: 'one'}, api.key, told);
	t.is((await listAudit(store.reader, {limit: 1}))[0]?.from, '203.0.113.9');
	for (const text of ['x'.repeat(9000), '<b>', '203.0.113.9:80']) {
		await api.post('/v1/templates', {name: `from ${text.length}`}, api.key, {'x-forwarded-for': text});
		t.is(
			(await listAudit(store.reader, {limit: 1}))[0]?.from,
			'127.0.0.1',
			'a text that is no address is not kept',
		);
	}
	const open = await startApi(t, store, {like: api});
	await open.post('/v1/templates', {name: 'two'}, api.key, told);
	t.is((await listAudit(store.reader, {limit: 1}))[0]?.from, '127.0.0.1');
});

sqliteTest(test, 'adds no audit entry if a request is refused or changes nothing', async (t, store) => {
	const api = await startApi(t, store);
	const contact = await contactOf(api);
	await api.post('/v1/suppressions', {recipient: 'a@x.example'});
	const before = await listAudit(store.reader, {limit: 100});
	t.is((await api.post('/v1/suppressions', {recipient: 'A@x.example'})).status, 200);
	t.is((await api.post('/v1/templates', {name: ''})).status, 422);
	t.is((await api.remove(`/v1/senders/${newId('snd')}`)).status, 404);
	t.is((await api.remove(`/v1/webhooks/${newId('whe')}`)).status, 404);
	t.is((await api.patch(`/v1/contacts/${contact}`, {})).status, 200);
	t.deepEqual(await listAudit(store.reader, {limit: 100}), before);
});

storeTest(test, 'an erasure removes the address from earlier audit entries but keeps the entries', async (t, store) => {
	const api = await startApi(t, store);
	const contact = await contactOf(api);
	const entry = idOf(await api.post('/v1/suppressions', {recipient: 'LOUIS@home.example'}));
	await api.remove(`/v1/suppressions/${entry}`);
	const acts = () => listAudit(store.reader, {limit: 100});
	t.deepEqual(
		(await acts()).map(({detail}) => detail.recipient),
		['louis@home.example', 'louis@home.example'],
	);
	await api.remove(`/v1/contacts/${contact}`);
	t.deepEqual(
		(await acts()).map(({action, target}) => [action, target]),
		[
			['contact.erased', contact],
			['suppression.removed', entry],
			['suppression.added', entry],
		],
	);
	t.notRegex(JSON.stringify(await store.reader('audit')), /louis/i);
	t.like((await acts())[0]?.detail, {messages: 1});
});
