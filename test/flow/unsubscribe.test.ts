import test from 'ava';
import {type Program, prepareProgram, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {freePort} from '../helpers/free-port.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Sent = {readonly status: number; readonly body: {readonly id: string; readonly error?: {readonly code: string}}};
type Event = {readonly type: string};

async function send(url: string, {key, from, templateId}: Welcome, fields: object): Promise<Sent> {
	const to = 'ada@example.org';
	return (await call(`${url}/v1/messages`, key, {from, to, templateId, ...fields})) as Sent;
}

/** The header fields of a captured message, unfolded. */
async function headersOf(program: Program, url: string, {key}: Welcome, id: string): Promise<Map<string, string>> {
	await waitFor('it is delivered', async () => {
		const {body} = await call(`${url}/v1/messages/${id}`, key);
		return (body as {status: string}).status === 'delivered';
	});
	const [head = ''] = (await program.cliBytes('message', 'raw', id)).toString().split('\r\n\r\n');
	return new Map(
		head
			.replaceAll(/\r\n[ \t]+/g, ' ')
			.split('\r\n')
			.map(line => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
	);
}

/** The request of Gmail to the URL of the header when its user presses the button. */
async function oneClick(headers: Map<string, string>, multipart = false): Promise<Response> {
	const url = /<(https?:[^>]+)>/.exec(headers.get('list-unsubscribe')?.replaceAll(' ', '') ?? '')?.[1] ?? '';
	const [name = '', value = ''] = headers.get('list-unsubscribe-post')?.split('=') ?? [];
	const form = new FormData();
	form.set(name, value);
	return await fetch(url, {
		method: 'POST',
		redirect: 'error',
		body: multipart ? form : new URLSearchParams([[name, value]]),
	});
}

async function eventsOf(url: string, {key}: Welcome, id: string): Promise<string[]> {
	const {body} = await call(`${url}/v1/messages/${id}/events`, key);
	return (body as {data: Event[]}).data.map(({type}) => type);
}

test('unsubscribes with one click by posting to the header URL of a sent message as Gmail does', async t => {
	const listen = `127.0.0.1:${await freePort()}`;
	const program = await prepareProgram(t, {MAILCTL_HTTP_LISTEN: listen});
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	await call(`${daemon.url}/v1/unsubscribe-groups`, shop.key, {code: 'news', name: 'Product news'});
	const {body: tagged} = await send(daemon.url, shop, {unsubscribeGroup: 'news'});
	const headers = await headersOf(program, daemon.url, shop, tagged.id);
	t.is(headers.get('list-unsubscribe-post'), 'List-Unsubscribe=One-Click');
	t.true(headers.get('list-unsubscribe')?.startsWith(`<${daemon.url}/unsubscribe?token=`));

	const answer = await oneClick(headers);
	t.is(answer.status, 200);
	t.is(answer.headers.get('set-cookie'), null);
	t.is((await send(daemon.url, shop, {unsubscribeGroup: 'news'})).body.error?.code, 'recipient_unsubscribed');
	t.deepEqual((await eventsOf(daemon.url, shop, tagged.id)).slice(-1), ['unsubscribed']);

	const {body: untagged} = await send(daemon.url, shop, {});
	t.is((await oneClick(await headersOf(program, daemon.url, shop, untagged.id), true)).status, 200);
	const refused = await send(daemon.url, shop, {});
	t.is(refused.status, 422);
	t.is(refused.body.error?.code, 'recipient_suppressed');
	t.deepEqual(await eventsOf(daemon.url, shop, untagged.id), [
		'accepted',
		'queued',
		'sent',
		'delivered',
		'unsubscribed',
	]);

	// Another start has the same keys: a link outlives the process that made it.
	t.is(await daemon.stop(), 0);
	const next = await program.serve();
	t.is((await oneClick(headers)).status, 200);
	t.is((await eventsOf(next.url, shop, tagged.id)).filter(type => type === 'unsubscribed').length, 1);
	t.is(await next.stop(), 0);
});
