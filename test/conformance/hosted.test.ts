import test from 'ava';
import type {Failure} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {type Program, prepareProgram} from '../helpers/daemon.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {call, openShop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	accepted,
	addTopic,
	codeOf,
	entryOf,
	oneClick,
	rawMail,
	type Suppression,
	send,
	suppress,
	timeline,
	unsubscribeUrl,
	untilEvent,
	untilStatus,
	walk,
} from './resources.ts';

const service = serviceOf(test, {workspaces: {branded: [], other: []}});
const requestId = /^req_[0-9a-hjkmnp-tv-z]{26}$/;

/** The one-click URL that a mail to the address carries. */
async function urlOf(workspace: Workspace, to: string, fields: object = {}): Promise<string> {
	return unsubscribeUrl(await rawMail(service(), workspace, await accepted(workspace, {to, ...fields})));
}

/** What a browser sends when the page's button is pressed: the first form's hidden fields and its first button. */
function formOf(page: string, base: string): {action: string; method: string; body: URLSearchParams} {
	const [form] = /<form[\s\S]*?<\/form>/i.exec(page) ?? [];
	const attribute = (tag: string, name: string) =>
		(new RegExp(`\\s${name}="([^"]*)"`, 'i').exec(tag)?.[1] ?? '').replaceAll('&amp;', '&');
	const tags = [...(form ?? '').matchAll(/<(?:input|button)[^>]*>/gi)].map(([tag]) => tag);
	const sent = tags.filter(
		tag => attribute(tag, 'type') === 'hidden' || (attribute(tag, 'type') === 'radio' && /\schecked/i.test(tag)),
	);
	const button = tags.find(tag => tag.startsWith('<button') || attribute(tag, 'type') === 'submit') ?? '';
	return {
		action: new URL(attribute(form ?? '', 'action') || base, base).href,
		method: attribute(form ?? '', 'method').toLowerCase(),
		body: new URLSearchParams(
			Object.fromEntries([...sent, button].map(tag => [attribute(tag, 'name'), attribute(tag, 'value')])),
		),
	};
}

async function post(url: string, fields: Record<string, string>): Promise<{status: number; page: string}> {
	const response = await fetch(url, {method: 'POST', body: new URLSearchParams(fields), redirect: 'manual'});
	return {status: response.status, page: await response.text()};
}

const pageOnly = (url: string) => url.replace(/\?.*/, '');
const tokenOf = (url: string) => new URL(url).searchParams.get('token') ?? '';

test('every mail has both headers, each copy its own token', async t => {
	conforms(t, 'hosted.headers', 'hosted.automatic', 'overview.one-click-headers');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const id = await accepted(workspace, {to: 'first@copies.example', cc: ['second@copies.example']});
	await waitFor(
		'both copies',
		async () => (await timeline(workspace.live, id)).filter(({type}) => type === 'delivered').length === 2,
	);
	const mails = await Promise.all(
		['first@copies.example', 'second@copies.example'].map(async recipient =>
			(
				await service().program.cliBytes('message', 'raw', id, '--recipient', recipient, '--workspace', workspace.id)
			).toString(),
		),
	);
	const urls = mails.map(unsubscribeUrl);
	t.is(new Set(urls).size, 2);
	for (const mail of mails) {
		t.regex(mail, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
	}
	await oneClick(urls[1] as string);
	t.is(await entryOf(workspace, 'first@copies.example'), undefined);
	t.like(await entryOf(workspace, 'second@copies.example'), {reason: 'unsubscribe'});
});

test('GET shows a branded page, without a key, and changes nothing', async t => {
	conforms(t, 'hosted.page', 'auth.hosted', 'versioning.2', 'topic.name');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	await addTopic(workspace, 'shown', 'Offers & <News>');
	const to = 'viewer@hosted.example';
	const url = await urlOf(workspace, to, {unsubscribeGroup: 'shown'});
	for (let n = 0; n < 20; n++) {
		const response = await fetch(url, {method: n % 2 === 0 ? 'GET' : 'HEAD'});
		const page = await response.text();
		t.is(response.status, 200);
		t.regex(response.headers.get('content-type') ?? '', /^text\/html/);
		t.regex(response.headers.get('x-request-id') ?? '', requestId);
		t.is(response.headers.get('cache-control'), 'no-store');
		t.is(response.headers.get('referrer-policy'), 'no-referrer');
		t.regex(response.headers.get('x-robots-tag') ?? page, /noindex/);
		t.truthy(response.headers.get('content-security-policy'));
		t.is(response.headers.get('set-cookie'), null);
		if (n % 2 === 0) {
			t.regex(page, /branded/);
			t.regex(page, /Offers &amp; &lt;News&gt;/);
			t.notRegex(page, /<script/i);
		}
	}
	t.is(await entryOf(workspace, to), undefined);
	t.is((await send(workspace, {to, unsubscribeGroup: 'shown'})).status, 202);
	t.is((await fetch(`${service().url}/v1/unsubscribe?token=${tokenOf(url)}`)).status, 404);
});

test('POST is the one-click action: of the topic if there is one, else of everything', async t => {
	conforms(t, 'hosted.one-click', 'hosted.rule-1', 'hosted.token', 'suppression.unsubscribe', 'suppression.source');
	conforms(t, 'suppression.reason', 'timeline.types');
	const {branded: workspace, other} = service().workspaces as {branded: Workspace; other: Workspace};
	await addTopic(workspace, 'one-click');
	await addTopic(workspace, 'another');
	const to = 'Leaver@hosted.example';
	const id = await accepted(workspace, {to, unsubscribeGroup: 'one-click'});
	const topicUrl = unsubscribeUrl(await rawMail(service(), workspace, id));
	const allUrl = await urlOf(workspace, to);

	const response = await oneClick(topicUrl);
	t.is(response.status, 200);
	t.regex(response.headers.get('content-type') ?? '', /^text\/html/);
	t.regex(response.headers.get('x-request-id') ?? '', requestId);
	t.is(codeOf(await send(workspace, {to, unsubscribeGroup: 'one-click'})), 'recipient_unsubscribed');
	t.is((await send(workspace, {to, unsubscribeGroup: 'another'})).status, 202);
	t.is((await send(workspace, {to})).status, 202);
	t.is(await entryOf(workspace, to), undefined);
	await untilEvent(workspace.live, id, 'unsubscribed');

	t.is((await oneClick(allUrl)).status, 200);
	t.like(await entryOf(workspace, to), {recipient: to, reason: 'unsubscribe', source: 'one-click'});
	t.is(codeOf(await send(workspace, {to, unsubscribeGroup: 'another'})), 'recipient_suppressed');
	t.is(await entryOf(other, to), undefined);
	t.is((await send(other, {to})).status, 202);
});

test('the token may stand in the query or the body; the body may be a form of either kind, or empty', async t => {
	conforms(t, 'hosted.one-click');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const multipart = new FormData();
	multipart.set('List-Unsubscribe', 'One-Click');
	const ways: ReadonlyArray<(url: string) => Promise<Response>> = [
		oneClick,
		url => fetch(url, {method: 'POST', body: multipart}),
		url => fetch(url, {method: 'POST'}),
		url => fetch(pageOnly(url), {method: 'POST', body: new URLSearchParams({token: tokenOf(url)})}),
		url => fetch(url, {method: 'POST', body: new URLSearchParams({unknown: 'field', other: '1'})}),
	];
	for (const [n, way] of ways.entries()) {
		const to = `way${n}@hosted.example`;
		const response = await way(await urlOf(workspace, to));
		t.is(response.status, 200, String(n));
		t.false(response.redirected);
		t.like(await entryOf(workspace, to), {reason: 'unsubscribe'}, String(n));
	}
});

test("the page's own button does what one-click does, and offers everything and an undo", async t => {
	conforms(t, 'hosted.one-click', 'hosted.page', 'hosted.rule-1');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	await addTopic(workspace, 'button');
	const to = 'button@hosted.example';
	const url = await urlOf(workspace, to, {unsubscribeGroup: 'button'});
	const form = formOf(await (await fetch(url)).text(), url);
	t.is(form.method, 'post');
	t.is(new URL(form.action).pathname, '/unsubscribe');
	const done = await fetch(form.action, {method: 'POST', body: form.body});
	t.is(done.status, 200);
	t.is(codeOf(await send(workspace, {to, unsubscribeGroup: 'button'})), 'recipient_unsubscribed');
	t.is(await entryOf(workspace, to), undefined);

	const undo = formOf(await done.text(), url);
	t.is((await fetch(undo.action, {method: 'POST', body: undo.body})).status, 200);
	t.is((await send(workspace, {to, unsubscribeGroup: 'button'})).status, 202);

	t.is((await post(url, {action: 'all'})).status, 200);
	t.like(await entryOf(workspace, to), {reason: 'unsubscribe', source: 'one-click'});
	t.is((await post(url, {action: 'undo'})).status, 200);
	t.is(await entryOf(workspace, to), undefined);
});

test('an undo takes back only what the page did; what others entered stays as it is', async t => {
	conforms(t, 'hosted.rule-4');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const to = 'kept@hosted.example';
	const url = await urlOf(workspace, to);
	const entry = await suppress(workspace, to);
	t.is((await oneClick(url)).status, 200);
	t.deepEqual(await entryOf(workspace, to), entry);
	t.is((await post(url, {action: 'undo'})).status, 200);
	t.deepEqual(await entryOf(workspace, to), entry);
});

test('doing it again changes nothing', async t => {
	conforms(t, 'hosted.rule-4');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const to = 'twice@hosted.example';
	const url = await urlOf(workspace, to);
	await oneClick(url);
	const first = await entryOf(workspace, to);
	const again = await Promise.all(Array.from({length: 10}, () => oneClick(url)));
	t.deepEqual([...new Set(again.map(({status}) => status))], [200]);
	t.deepEqual(await entryOf(workspace, to), first);
	t.is((await walk<Suppression>(workspace.live, `/v1/suppressions?recipient=${to}`)).length, 1);
});

test('if the topic is gone the recipient is suppressed', async t => {
	conforms(t, 'hosted.rule-2');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const to = 'orphan@hosted.example';
	const {id} = await addTopic(workspace, 'short-lived');
	const url = await urlOf(workspace, to, {unsubscribeGroup: 'short-lived'});
	t.is((await workspace.live.remove(`/v1/unsubscribe-groups/${id}`)).status, 204);
	t.is((await oneClick(url)).status, 200);
	t.like(await entryOf(workspace, to), {reason: 'unsubscribe', source: 'one-click'});
	t.is(codeOf(await send(workspace, {to})), 'recipient_suppressed');
});

test('a forged token: a branded error page, and nothing happens', async t => {
	conforms(t, 'hosted.rule-3', 'hosted.token');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const to = 'forged@hosted.example';
	const url = await urlOf(workspace, to);
	const token = tokenOf(url);
	const changed = (at: number) => token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
	const forged = [
		...[
			'',
			'x',
			'A'.repeat(200),
			`${token}A`,
			token.slice(0, -1),
			`${token}=`,
			`${token} `,
			token.toUpperCase(),
			token.repeat(20),
		],
		...[0, 1, 2, 8, 20, 40, token.length - 20, token.length - 1].map(changed),
	];
	for (const each of forged) {
		for (const method of ['GET', 'POST']) {
			const response = await fetch(`${pageOnly(url)}?token=${encodeURIComponent(each)}`, {method});
			t.is(response.status, 400, `${method} ${each}`);
			t.regex(response.headers.get('content-type') ?? '', /^text\/html/);
			t.regex(response.headers.get('x-request-id') ?? '', requestId);
			t.regex(await response.text(), /<html lang="[a-z]/);
		}
	}
	for (const method of ['GET', 'POST']) {
		t.is((await fetch(pageOnly(url), {method})).status, 400);
	}
	t.is(await entryOf(workspace, to), undefined);
	t.is((await post(pageOnly(url), {token, padding: 'x'.repeat(9000)})).status, 413);
	t.is(await entryOf(workspace, to), undefined);
});

/** The code of an envelope whose request id is the header's. */
async function codeIn(response: Response): Promise<string | null> {
	const {error} = (await response.json()) as Failure;
	return error.request_id === response.headers.get('x-request-id') ? error.code : null;
}

test('other methods are refused with what is allowed, other bodies with the envelope', async t => {
	conforms(t, 'hosted.page', 'errors.405.method_not_allowed', 'errors.envelope');
	const url = `${service().url}/unsubscribe`;
	const json = {method: 'POST', body: '{}', headers: {'content-type': 'application/json'}};
	t.is(await codeIn(await fetch(url, json)), 'unsupported_media_type');
	const large = {method: 'POST', body: new URLSearchParams({token: 'x'.repeat(9000)})};
	t.is(await codeIn(await fetch(url, large)), 'payload_too_large');
	for (const method of ['PUT', 'PATCH', 'DELETE']) {
		const response = await fetch(`${service().url}/unsubscribe`, {method});
		t.is(response.status, 405);
		t.regex(response.headers.get('allow') ?? '', /GET.*POST|POST.*GET/);
		t.is(await codeIn(response), 'method_not_allowed');
	}
});

test('the page is in the language of the message', async t => {
	conforms(t, 'hosted.page');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	for (const [locale, language] of [
		['de-AT', 'de'],
		['fr', 'fr'],
		['es-MX', 'es'],
		['ja', 'en'],
	] as const) {
		const page = await (await fetch(await urlOf(workspace, `reader@${language}.hosted.example`, {locale}))).text();
		t.regex(page, new RegExp(`<html lang="${language}`), locale);
	}
});

/** What a first mail's URL is after its token's lifetime. */
async function expiredUrl(program: Program): Promise<string> {
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	const daemon = await program.serve();
	const [templateId] = [...shop.templates.values()];
	const sent = await call(`${daemon.url}/v1/messages`, shop.key, {
		from: shop.from,
		to: 'late@hosted.example',
		templateId,
	});
	const {id} = sent.body as {id: string};
	await waitFor('it is delivered', async () => {
		const {body} = await call(`${daemon.url}/v1/messages/${id}`, shop.key);
		return (body as {status: string}).status === 'delivered';
	});
	return unsubscribeUrl((await program.cliBytes('message', 'raw', id)).toString());
}

test('an expired token: a branded error page', async t => {
	conforms(t, 'hosted.rule-3');
	const program = await prepareProgram(t, {MAILCTL_TOKEN_LIFETIME: '1s', MAILCTL_LOG_LEVEL: 'warn'});
	const url = await expiredUrl(program);
	const gone = await waitFor('it expires', async () => {
		const response = await fetch(url);
		return response.status !== 200 && response;
	});
	t.is(gone.status, 410);
	t.regex(gone.headers.get('content-type') ?? '', /^text\/html/);
	const posted = await oneClick(url);
	t.is(posted.status, 410);
	t.regex(await posted.text(), /<html lang="/);
});

test('a deleted message leaves its token usable', async t => {
	conforms(t, 'hosted.token');
	const {branded: workspace} = service().workspaces as {branded: Workspace};
	const to = 'erased@hosted.example';
	const id = await accepted(workspace, {to});
	const url = unsubscribeUrl(await rawMail(service(), workspace, id));
	await untilStatus(workspace.live, id, 'delivered');
	const [contact] = await walk<{id: string}>(workspace.live, `/v1/contacts?email=${to}`);
	t.is((await workspace.live.remove(`/v1/contacts/${contact?.id}`)).status, 204);
	t.is((await oneClick(url)).status, 200);
	t.like(await entryOf(workspace, to), {reason: 'unsubscribe'});
});
