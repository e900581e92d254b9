import test from 'ava';
import type {Answer, Failure, List} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	accepted,
	addTopic,
	type Contact,
	type Delivery,
	type Endpoint,
	suppress,
	unknownId,
	untilEvent,
	walk,
} from './resources.ts';
import {pathWith, prefixIn, routes} from './routes.ts';

const service = serviceOf(test, {workspaces: {mine: [], theirs: [], named: []}});

/** One id of every type, in a workspace. */
async function oneOfEach(workspace: Workspace): Promise<Readonly<Record<string, string>>> {
	const {live} = workspace;
	const endpoint = await live.post<Endpoint>('/v1/webhooks', {
		url: 'https://hooks.theirs.example/',
		events: ['delivered'],
	});
	const message = await accepted(workspace, {to: 'person@people.example'});
	const events = await untilEvent(live, message, 'delivered');
	const [delivery] = await waitFor('the event could not be delivered', async () => {
		const {body} = await live.get<List<Delivery>>(`/v1/webhooks/${endpoint.body.id}/deliveries`);
		return body.data.some(({status}) => status === 'failed') && body.data;
	});
	const firstOf = async <Item>(path: string) => (await live.get<List<Item>>(path)).body.data[0] as Item;
	return {
		msg: message,
		evt: events[0]?.id as string,
		sup: (await suppress(workspace, 'blocked@people.example')).id,
		usg: (await addTopic(workspace, 'news')).id,
		whe: endpoint.body.id,
		whd: delivery?.id as string,
		con: (await firstOf<Contact>('/v1/contacts')).id,
		tpl: workspace.templates.plain as string,
		snd: (await firstOf<{id: string}>('/v1/senders')).id,
	};
}

/** All of an answer that a caller can see, but for what differs in any two requests. */
function shapeOf({status, headers, body}: Answer<Failure>): unknown {
	const {error} = body ?? {};
	const changing = new Set(['x-request-id', 'date', 'ratelimit-remaining', 'ratelimit-reset']);
	return {
		status,
		headers: [...headers].filter(([name]) => !changing.has(name)),
		error: error === undefined ? body : {...error, request_id: 'the same'},
	};
}

test('ids of another workspace answer on every route as unknown ones do, and nothing changes', async t => {
	conforms(t, 'overview.foreign-ids', 'overview.scoped', 'auth.one-workspace', 'errors.404.not_found');
	conforms(t, 'errors.404.message_not_found', 'messages.get.unknown', 'suppressions.delete.foreign');
	conforms(
		t,
		'topics.delete.foreign',
		'webhooks.delete.foreign',
		'webhooks.deliveries.foreign',
		'webhooks.replay.foreign',
	);
	const {mine, theirs} = service().workspaces as {mine: Workspace; theirs: Workspace};
	const ids = await oneOfEach(theirs);
	const lists = ['messages', 'suppressions', 'unsubscribe-groups', 'webhooks', 'contacts', 'templates', 'senders'];
	const contents = async (workspace: Workspace) =>
		await Promise.all([
			...lists.map(name => walk(workspace.live, `/v1/${name}`)),
			walk<Delivery>(workspace.live, `/v1/webhooks/${ids.whe}/deliveries`)
				.then(all => all.map(({id}) => id))
				.catch(() => null),
		]);
	const [before, mineBefore] = [await contents(theirs), await contents(mine)];

	for (const route of routes) {
		const prefix = prefixIn(route);
		if (prefix === null) {
			continue;
		}
		const body = route.body === undefined ? null : JSON.stringify(route.body);
		const unknown = await mine.live.call(route.method, pathWith(route, unknownId), body);
		t.is(unknown.status, 404, `${route.method} ${route.path}`);
		t.is(unknown.body.error.code, prefix === 'msg' ? 'message_not_found' : 'not_found');
		// Theirs of the right type, of every other type, and texts that are no ids.
		for (const id of [ids[prefix] as string, ...Object.values(ids), 'x', `${ids[prefix]}x`]) {
			const foreign = await mine.live.call(
				route.method,
				pathWith(route, () => id),
				body,
			);
			t.deepEqual(shapeOf(foreign), shapeOf(unknown), `${route.method} ${route.path} with ${id}`);
		}
	}

	t.deepEqual(await contents(theirs), before);
	t.deepEqual(await contents(mine), mineBefore);
});

test('names of another workspace mean nothing: senders, templates, topics, cursors', async t => {
	conforms(t, 'overview.scoped', 'topic.per-workspace', 'auth.one-workspace');
	const {mine, named: theirs} = service().workspaces as {mine: Workspace; named: Workspace};
	await addTopic(theirs, 'theirs-only');
	const refused = async (fields: object) => {
		const body = {from: mine.from, to: 'user@simulator.test', templateId: mine.templates.plain, ...fields};
		return (await mine.live.post('/v1/messages', body)).body.error.code;
	};
	t.is(await refused({from: theirs.from}), 'sender_not_available');
	t.is(await refused({templateId: theirs.templates.plain}), 'template_not_found');
	t.is(await refused({unsubscribeGroup: 'theirs-only'}), 'unknown_unsubscribe_group');
	const list = await mine.live.get<List<unknown>>(`/v1/messages?templateId=${theirs.templates.plain}`);
	t.deepEqual(list.body.data, []);
});
