import test, {type TestFn} from 'ava';
import fc from 'fast-check';
import {systemClock} from '../../src/kit/clock.ts';
import {createClaimWrite} from '../../src/store/queue/claims.ts';
import {anyChar} from '../helpers/any-char.ts';
import {codeOf, startApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {
	addTopic,
	at,
	events,
	lists,
	type Mail,
	oneClick,
	pathOf,
	press,
	type Shown,
	sendMail,
	show,
	tokenOf,
	urlencoded,
} from '../helpers/hosted.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';
import {addKey, addWorkspace, newId} from '../helpers/workspace.ts';

// Each test has its own server, and all at once would slow each other down.
const serially = test.serial as TestFn;
storeTest(
	test.serial as TestFn,
	'one click as posted by Gmail suppresses the address, records one event and blocks the next message',
	async (t, store) => {
		conforms(t, 'hosted.rule-4');
		const api = await startApi(t, store);
		const {id, path} = await sendMail(api, {to: 'User@Example.org'});
		const answer = await press(api, path, oneClick);
		t.is(answer.status, 200);
		t.regex(answer.html, /<h1>You are unsubscribed<\/h1>/);
		t.false(answer.headers.has('set-cookie'));
		t.regex(answer.headers.get('x-request-id') ?? '', /^req_/);
		t.deepEqual(await lists(api), ['user@example.org all unsubscribe one-click']);
		const told = {recipient: 'User@Example.org', role: 'to', topic: null, via: 'one-click'};
		t.deepEqual(await events(api, id), [told]);
		t.is(codeOf(await api.send()), 'recipient_suppressed');

		t.is((await press(api, path, oneClick)).status, 200);
		t.is((await lists(api)).length, 1);
		t.deepEqual(await events(api, id), [told]);
		const {body} = await api.get(`/v1/messages/${id}/events`);
		t.is((body as {data: Array<{type: string}>}).data.at(-1)?.type, 'unsubscribed');
		t.is((await api.get(`/v1/messages/${id}`)).status, 200);
		t.like((await api.get(`/v1/messages/${id}`)).body, {status: 'accepted'});
	},
);

const bodies: ReadonlyArray<readonly [name: string, type: string | null, body: string]> = [
	[
		'multipart',
		'multipart/form-data; boundary=---b',
		`-----b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n-----b--\r\n`,
	],
	[
		'multipart with one hyphen too few',
		'multipart/form-data; boundary=---b',
		`---b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n---b--\r\n`,
	],
	['urlencoded with a charset', `${urlencoded}; charset=utf-8`, oneClick],
	['a type in capitals', 'Application/X-WWW-Form-Urlencoded', oneClick],
	['unknown fields beside it', urlencoded, `a=1&${oneClick}&List-Unsubscribe=x`],
	['an empty form', urlencoded, ''],
	['no body and no type', null, ''],
	['no body of another type', 'text/plain', ''],
];

sqliteTest(serially, 'accepts a one-click POST with any type of form or without a body', async (t, store) => {
	const api = await startApi(t, store);
	for (const [index, [name, type, body]] of bodies.entries()) {
		const {path} = await sendMail(api, {to: `user${index}@example.org`});
		const headers: Record<string, string> = type === null ? {} : {'content-type': type};
		t.is((await show(api, path, {method: 'POST', headers, ...(body !== '' && {body})})).status, 200, name);
		t.is((await lists(api)).length, index + 1, name);
	}
});

storeTest(
	test.serial as TestFn,
	'a message with a topic unsubscribes from it by default, and from everything on request',
	async (t, store) => {
		const api = await startApi(t, store);
		const topicId = await addTopic(api);
		const mail = await sendMail(api, {unsubscribeGroup: 'news', topicId});
		t.regex((await show(api, mail.path)).html, /<h1>Unsubscribe from “Product news”\?<\/h1>/);

		const done = await press(api, mail.path, oneClick);
		t.regex(
			done.html,
			/will no longer receive emails about “<bdi>Product news<\/bdi>” from <bdi>example\.com<\/bdi>/,
		);
		t.deepEqual(await lists(api), ['user@example.org news one-click']);
		t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
		t.is((await api.send()).status, 202);

		const all = await press(api, mail.path, 'action=all');
		t.regex(all.html, /will no longer receive email from <bdi>example\.com<\/bdi>/);
		t.deepEqual(await lists(api), [
			'user@example.org all unsubscribe one-click',
			'user@example.org news one-click',
		]);
		const common = {recipient: 'user@example.org', role: 'to'};
		t.deepEqual(await events(api, mail.id), [
			{...common, topic: 'news', via: 'one-click'},
			{...common, topic: null, via: 'page'},
		]);
	},
);

storeTest(serially, 'endpoints receive each kind of unsubscription once, and again after an undo', async (t, store) => {
	const api = await startApi(t, store);
	const events = ['recipient_unsubscribed', 'recipient_suppressed'] as const;
	await insertEndpoint(store, api.workspace.id, {events, format: 'full'});
	const mail = await sendMail(api, {unsubscribeGroup: 'news', topicId: await addTopic(api)});
	for (const action of ['topic', 'topic', 'all', 'all', 'undo', 'topic']) {
		await press(api, mail.path, `action=${action}`);
	}
	const rows = await store.reader('webhook_deliveries').orderBy('id').select('body');
	const posted = rows.map(({body}) => JSON.parse(Buffer.from(body).toString()));
	t.deepEqual(
		posted.map(({type, message_id: id, recipient, detail: {topic, reason}}) => [
			type,
			id,
			recipient,
			topic ?? reason,
		]),
		[
			['recipient_unsubscribed', mail.id, 'user@example.org', 'news'],
			['recipient_suppressed', mail.id, 'user@example.org', 'unsubscribe'],
			['recipient_unsubscribed', mail.id, 'user@example.org', undefined],
			['recipient_unsubscribed', mail.id, 'user@example.org', 'news'],
		],
	);
});

storeTest(serially, 'undo reverts what the page did, and nothing else', async (t, store) => {
	const api = await startApi(t, store);
	const topicId = await addTopic(api);
	await addTopic(api, 'offers');
	const mail = await sendMail(api, {unsubscribeGroup: 'news', topicId});
	const other = await sendMail(api, {to: 'other@example.org'});
	await press(api, other.path, oneClick);
	await store.database('topic_optouts').insert({
		...{workspace_id: api.workspace.id, address: 'user@example.org', address_key: 'user@example.org'},
		...{code: 'offers', source: 'one-click', created_at: at},
	});
	await press(api, mail.path, 'action=topic');
	await press(api, mail.path, 'action=all');
	t.is((await lists(api)).length, 4);

	const undone = await press(api, mail.path, 'action=undo');
	t.regex(undone.html, /<h1>You are subscribed again<\/h1>/);
	t.deepEqual(await lists(api), ['other@example.org all unsubscribe one-click', 'user@example.org offers one-click']);
	t.is((await api.send({unsubscribeGroup: 'news'})).status, 202);
	t.is((await press(api, mail.path, 'action=undo')).status, 200);

	// Repeated actions change the list, but add no events.
	await press(api, mail.path, 'action=topic');
	t.is((await lists(api)).length, 3);
	t.is((await events(api, mail.id)).length, 2);
});

sqliteTest(serially, 'neither overwrites nor undoes a suppression from another source', async (t, store) => {
	const api = await startApi(t, store);
	const {id, path} = await sendMail(api, {});
	const address = 'user@example.org';
	for (const [reason, source] of [
		['manual', 'api'],
		['hard_bounce', 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n'],
		['complaint', 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n'],
		['unsubscribe', 'import'],
	] as const) {
		await store.database('suppressions').delete();
		await store.database('suppressions').insert({
			...{id: newId('sup'), workspace_id: api.workspace.id, address, address_key: address},
			...{reason, source, created_at: at},
		});
		for (const body of [oneClick, 'action=all', 'action=undo']) {
			const {status, html} = await press(api, path, body);
			t.is(status, 200);
			t.regex(html, /<h1>Email to this address is blocked<\/h1>/);
			t.notRegex(html, /<button/);
			t.deepEqual(await lists(api), [`${address} all ${reason} ${source}`]);
		}
	}
	t.deepEqual(await events(api, id), []);
});

sqliteTest(
	test.serial as TestFn,
	'keeps an opt-out from another source, and does not offer to undo it',
	async (t, store) => {
		const api = await startApi(t, store);
		const topicId = await addTopic(api);
		const {path} = await sendMail(api, {unsubscribeGroup: 'news', topicId});
		await store.database('topic_optouts').insert({
			...{workspace_id: api.workspace.id, address: 'user@example.org', address_key: 'user@example.org'},
			...{code: 'news', source: 'api', created_at: at},
		});
		for (const body of [oneClick, 'action=undo']) {
			const {html} = await press(api, path, body);
			t.notRegex(html, /value="undo"/);
			t.regex(html, /value="all"/);
			t.deepEqual(await lists(api), ['user@example.org news api']);
		}
	},
);

sqliteTest(serially, 'unsubscribes from everything if the topic was removed', async (t, store) => {
	conforms(t, 'hosted.rule-2');
	const api = await startApi(t, store);
	const topicId = await addTopic(api);
	const {path} = await sendMail(api, {unsubscribeGroup: 'news', topicId});
	await store.database('topics').where({id: topicId}).delete();
	t.regex((await show(api, path)).html, /<h1>Unsubscribe from example\.com\?<\/h1>/);
	await press(api, path, 'action=topic');
	t.deepEqual(await lists(api), ['user@example.org all unsubscribe one-click']);
});

storeTest(
	test.serial as TestFn,
	'a removed or erased message can still be unsubscribed from, and records nothing else',
	async (t, store) => {
		const api = await startApi(t, store);
		const gone = await sendMail(api, {to: 'gone@example.org'});
		const erased = await sendMail(api, {to: 'erased@example.org'});
		await store.database('messages').where({id: gone.id}).delete();
		await store
			.database('recipients')
			.where({message_id: erased.id})
			.update({address: 'erased@erased.invalid', address_key: 'erased@erased.invalid'});
		t.is((await press(api, gone.path, oneClick)).status, 200);
		t.is((await press(api, erased.path, oneClick)).status, 200);
		t.deepEqual(await lists(api), [
			'gone@example.org all unsubscribe one-click',
			'erased@example.org all unsubscribe one-click',
		]);
		t.deepEqual(await events(api, erased.id), []);
		t.regex((await show(api, gone.path)).html, /<header><bdi>acme<\/bdi>/);
		t.regex((await show(api, erased.path)).html, /<header><bdi>example\.com<\/bdi>/);
	},
);

sqliteTest(serially, 'shows the error page if the workspace was removed', async (t, store) => {
	const api = await startApi(t, store);
	const {claims} = await sendMail(api, {});
	const path = pathOf(api, {...claims, workspaceId: newId('ws')});
	for (const answer of [await show(api, path), await press(api, path, oneClick)]) {
		t.is(answer.status, 400);
		t.regex(answer.html, /<h1>This link does not work<\/h1>/);
	}
	t.deepEqual(await lists(api), []);
});

sqliteTest(serially, 'unsubscribes a Cc recipient', async (t, store) => {
	const api = await startApi(t, store);
	const {id, claims} = await sendMail(api, {cc: ['copy@example.org']});
	await press(api, pathOf(api, {...claims, role: 'cc', address: 'copy@example.org'}), oneClick);
	t.deepEqual(await lists(api), ['copy@example.org all unsubscribe one-click']);
	t.like((await events(api, id))[0], {recipient: 'copy@example.org', role: 'cc'});
});

sqliteTest(serially, 'a test message records the event, but suppresses no real address', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const real = await sendMail(api, {}, key);
	for (const again of [1, 2]) {
		const {html} = await press(api, real.path, oneClick);
		t.regex(html, /<h1>You are unsubscribed<\/h1>[\s\S]*This was a test message/, String(again));
		t.notRegex(html, /<button/);
	}
	t.deepEqual(await lists(api), []);
	t.is((await events(api, real.id)).length, 1);

	// A test message cannot undo what a live message did.
	await press(api, (await sendMail(api, {})).path, oneClick);
	await press(api, real.path, 'action=undo');
	t.is((await lists(api)).length, 1);

	await press(api, (await sendMail(api, {to: 'delivered@simulator.test'}, key)).path, oneClick);
	t.is((await lists(api)).at(-1), 'delivered@simulator.test all unsubscribe one-click');
});

sqliteTest(serially, 'viewing the page by GET or HEAD changes nothing', async (t, store) => {
	conforms(t, 'hosted.page', 'auth.hosted', 'versioning.2');
	const api = await startApi(t, store);
	const topicId = await addTopic(api);
	const {id, path} = await sendMail(api, {unsubscribeGroup: 'news', topicId});
	for (let n = 0; n < 10; n++) {
		t.is((await show(api, path, {method: n % 2 === 0 ? 'HEAD' : 'GET'})).status, 200);
	}
	t.is((await show(api, `${path}&action=all`)).status, 200);
	t.deepEqual(await lists(api), []);
	t.deepEqual(await events(api, id), []);
	const head = await show(api, path, {method: 'HEAD'});
	t.is(head.html, '');
	t.regex(head.headers.get('content-type') ?? '', /^text\/html/);
});

sqliteTest(serially, 'accepts the token in the form, and the page passes it on', async (t, store) => {
	const api = await startApi(t, store);
	const {path} = await sendMail(api, {});
	const token = tokenOf(path);
	const {status, html} = await press(api, '/unsubscribe', `token=${token}`);
	t.is(status, 200);
	t.true(html.includes(`name="token" value="${token}"`));
	t.is((await lists(api)).length, 1);
	t.is((await press(api, '/unsubscribe', `token=${token}&action=undo`)).status, 200);
	t.is((await lists(api)).length, 0);
});

sqliteTest(
	test,
	'rejects altered tokens and those of another purpose, and reports an expired one',
	async (t, store) => {
		conforms(t, 'hosted.rule-3');
		const api = await startApi(t, store);
		await store.database('workspaces').update({
			branding: JSON.stringify({name: 'The Shop', support_email: 'help@shop.example', accent: '#0a7d4f'}),
		});
		const {claims, path} = await sendMail(api, {});
		const token = tokenOf(path);
		const refused = async (text: string) => {
			for (const answer of [
				await show(api, `/unsubscribe?token=${encodeURIComponent(text)}`),
				await press(api, `/unsubscribe?token=${encodeURIComponent(text)}`, oneClick),
			]) {
				t.is(answer.status, 400, text);
			}
		};
		t.is((await press(api, '/unsubscribe', oneClick)).status, 400);
		t.is((await show(api, `/unsubscribe?token=${token}&token=${token}`)).status, 400);
		// test/compose/links/links.test.ts covers all others, because the rate limit applies here after 120.
		for (let index = 0; index < token.length; index += 10) {
			const mutant = token.slice(0, index) + (token[index] === 'A' ? 'B' : 'A') + token.slice(index + 1);
			await refused(mutant);
		}
		for (const other of [`${token}=`, `${token}A`, token.slice(0, -1), `${token} `, 'A'.repeat(10_000), '']) {
			await refused(other);
		}
		await refused(api.links.openUrl(claims).split('/').at(-1) as string);
		await refused(api.links.clickUrl(claims, 'https://shop.example')?.split('/').at(-1) as string);

		const old = pathOf(api, {...claims, expiresAt: Date.now() - 1000});
		for (const answer of [await show(api, old), await press(api, old, oneClick)]) {
			t.is(answer.status, 410);
			t.regex(answer.html, /<h1>This link has expired<\/h1>[\s\S]*mailto:help@shop\.example/);
			t.regex(answer.html, /<bdi>The Shop<\/bdi>/);
		}
		t.deepEqual(await lists(api), []);
	},
);

sqliteTest(
	test.serial as TestFn,
	'limits the rate of forged tokens after 120, but never of real ones',
	async (t, store) => {
		const api = await startApi(t, store, {clock: {...systemClock, monotonic: () => 0}});
		const {path} = await sendMail(api, {});
		const statuses: number[] = [];
		for (let n = 0; n < 121; n++) {
			statuses.push((await show(api, '/unsubscribe?token=x')).status);
		}
		t.deepEqual(statuses, [...new Array(120).fill(400), 429]);
		const {headers, html} = await show(api, '/unsubscribe?token=x');
		t.is(headers.get('retry-after'), '60');
		t.regex(html, /<h1>Too many attempts<\/h1>/);
		for (let n = 0; n < 50; n++) {
			t.is((await press(api, path, oneClick)).status, 200);
		}
	},
);

sqliteTest(serially, 'an unknown action gets 400 and changes nothing', async (t, store) => {
	const api = await startApi(t, store);
	const {path} = await sendMail(api, {});
	for (const action of ['everything', '', 'TOPIC', '__proto__']) {
		const {status, html} = await press(api, path, `action=${action}`);
		t.is(status, 400);
		t.regex(html, /<h1>Something went wrong<\/h1>/);
	}
	t.deepEqual(await lists(api), []);
});

sqliteTest(serially, 'returns 413, 415 and 405 as API errors', async (t, store) => {
	const api = await startApi(t, store);
	const {path} = await sendMail(api, {});
	const post = (body: string | Uint8Array, headers: Record<string, string>) =>
		show(api, path, {method: 'POST', body: body as string, headers});
	const codeIn = ({html}: Shown) => (JSON.parse(html) as {error: {code: string}}).error.code;
	const large = await post(`a=${'x'.repeat(8192)}`, {'content-type': urlencoded});
	t.is(large.status, 413);
	t.is(codeIn(large), 'payload_too_large');
	t.is((await post(`a=${'x'.repeat(8190)}`, {'content-type': urlencoded})).status, 200);
	for (const headers of [
		{'content-type': 'application/json'},
		{'content-type': 'text/plain'},
		{'content-type': urlencoded, 'content-encoding': 'gzip'},
	]) {
		const answer = await post('{}', headers as Record<string, string>);
		t.is(answer.status, 415);
		t.is(codeIn(answer), 'unsupported_media_type');
		t.regex(answer.html, /as a form/);
	}
	const put = await show(api, path, {method: 'PUT'});
	t.is(put.status, 405);
	t.is(put.headers.get('allow'), 'GET, HEAD, OPTIONS, POST');
	t.regex(put.headers.get('x-request-id') ?? '', /^req_/);
	t.is((await show(api, '/unsubscribe/')).status, 404);
});

sqliteTest(
	test.serial as TestFn,
	'any token and form gets 400, 410, 413 or 415, never an internal error',
	async (t, store) => {
		const api = await startApi(t, store);
		const type = fc.constantFrom(
			urlencoded,
			'multipart/form-data; boundary=x',
			'multipart/form-data',
			'text/plain',
			'a',
		);
		await fc.assert(
			fc.asyncProperty(
				fc.string({unit: anyChar}),
				type,
				fc.uint8Array({maxLength: 9000}),
				async (text, contentType, body) => {
					const path = `/unsubscribe?token=${encodeURIComponent(text)}`;
					const {status} = await show(api, path, {
						method: 'POST',
						headers: {'content-type': contentType},
						body: body as unknown as string,
					});
					t.true([400, 413, 415, 429].includes(status), String(status));
					t.true([400, 429].includes((await show(api, path)).status));
				},
			),
			{numRuns: 60},
		);
		t.deepEqual(api.reported, []);
	},
);

sqliteTest(test, 'escapes topic names, brands and addresses; the page can load and run nothing', async (t, store) => {
	const api = await startApi(t, store);
	const evil = `<script>alert(1)</script>"><img src=x onerror=alert(1)>'\u202e&lt;`;
	await store.database('workspaces').update({
		branding: JSON.stringify({
			name: evil,
			logo_url: 'https://logo.example:8443/l.png?a="b',
			support_email: "o'neil&x@shop.example",
		}),
	});
	const topicId = await addTopic(api, 'evil', evil);
	const {claims, path} = await sendMail(api, {to: "o'neil&x@example.org", unsubscribeGroup: 'evil', topicId});
	t.is(claims.address, "o'neil&x@example.org");
	for (const page of [
		await show(api, path),
		await press(api, path, 'action=topic'),
		await press(api, path, 'action=all'),
		await press(api, path, 'action=undo'),
	]) {
		t.is(page.status, 200);
		t.notRegex(page.html, /<script|<img src=x|\u202e/);
		t.true(page.html.includes('&lt;script&gt;alert(1)&lt;/script&gt;&quot;&gt;'));
		const policy = page.headers.get('content-security-policy') ?? '';
		const nonce = /style-src 'nonce-([A-Za-z0-9+/=]{24})'/.exec(policy)?.[1] ?? '';
		t.is(
			policy,
			`default-src 'none'; style-src 'nonce-${nonce}'; img-src https://logo.example:8443; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
		);
		t.true(page.html.includes(`<style nonce="${nonce}">`));
		t.is(page.html.split('<style').length, 2);
		t.notRegex(page.html, /style="|<link|<script|https?:\/\/(?!logo\.example)/);
		t.is(page.headers.get('referrer-policy'), 'no-referrer');
		t.is(page.headers.get('x-content-type-options'), 'nosniff');
		t.is(page.headers.get('x-robots-tag'), 'noindex');
		t.is(page.headers.get('cache-control'), 'no-store');
	}
	const nonces = await Promise.all([show(api, path), show(api, path)]);
	t.not(nonces[0]?.headers.get('content-security-policy'), nonces[1]?.headers.get('content-security-policy'));
});

sqliteTest(
	test.serial as TestFn,
	'uses the language of the message, the contact, the browser or the workspace',
	async (t, store) => {
		const api = await startApi(t, store);
		const languageOf = async (path: string, accept?: string) => {
			const {html, headers} = await show(
				api,
				path,
				accept === undefined ? {} : {headers: {'accept-language': accept}},
			);
			const language = /<html lang="(\w+)">/.exec(html)?.[1];
			t.is(headers.get('content-language'), language ?? '');
			return language;
		};
		const german = await sendMail(api, {locale: 'de-AT'});
		t.is(await languageOf(german.path, 'fr'), 'de');
		await store.database('messages').where({id: german.id}).delete();
		t.is(await languageOf(german.path, 'fr'), 'de', 'the contact learnt it');
		const other = await sendMail(api, {to: 'other@example.org'});
		t.is(await languageOf(other.path, 'ja, fr;q=0.5'), 'fr');
		await store.database('workspaces').update({locale: 'es'});
		t.is(await languageOf(other.path), 'es');
		t.is(await languageOf('/unsubscribe?token=x', 'de'), 'de');
		t.is(await languageOf('/unsubscribe?token=x'), 'es');
	},
);

sqliteTest(
	test,
	'a forged link shows the brand of the only workspace, or none if there are several',
	async (t, store) => {
		const api = await startApi(t, store);
		t.notRegex((await show(api, '/unsubscribe?token=x')).html, /<header>|acme/);
		await store.database('workspaces').update({branding: '{"accent":"#0a7d4f"}'});
		t.regex((await show(api, '/unsubscribe?token=x')).html, /<header><bdi>acme<\/bdi>/);
		await addWorkspace(store, 'zebra');
		t.notRegex((await show(api, '/unsubscribe?token=x')).html, /<header>|acme|zebra/);
	},
);

sqliteTest(test, 'a page contains nothing from the Host or forwarding headers', async (t, store) => {
	const api = await startApi(t, store);
	const {path} = await sendMail(api, {});
	const headers = {
		'x-forwarded-host': 'evil.example',
		'x-forwarded-proto': 'javascript',
		forwarded: 'host=evil.example',
	};
	t.notRegex((await show(api, path, {headers})).html, /evil\.example|javascript/);
});

storeTest(serially, 'concurrent requests add each address and each event once', async (t, store) => {
	const api = await startApi(t, store);
	const mails = await Promise.all(Array.from({length: 10}, (_, n) => sendMail(api, {to: `user${n}@example.org`})));
	const answers = await Promise.all(
		Array.from({length: 100}, (_, n) => press(api, (mails[n % 10] as Mail).path, oneClick)),
	);
	t.true(answers.every(({status}) => status === 200));
	t.is((await lists(api)).length, 10);
	for (const {id} of mails) {
		t.is((await events(api, id)).length, 1);
	}
});

storeTest(serially, 'messages in the queue are no longer sent', async (t, store) => {
	const api = await startApi(t, store);
	const [first, second] = [await sendMail(api, {}), await sendMail(api, {})];
	await press(api, first.path, oneClick);
	const claim = createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock: systemClock});
	const queue = {destination: 'example.org', workspaceId: api.workspace.id};
	const {recipients} = await store.writer.submit(claim, {
		...queue,
		limit: 10,
		newestFirst: false,
		lastsMs: 60_000,
		asksNext: false,
		warmUp: null,
	});
	t.deepEqual(recipients.map(recipient => [recipient.message_id, recipient.stop]).toSorted(), [
		[first.id, 'suppressed'],
		[second.id, 'suppressed'],
	]);
});
