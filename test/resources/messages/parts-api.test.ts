import {mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {capturedName} from '../../../src/deliver/local-delivery.ts';
import {storeTime} from '../../../src/kit/time.ts';
import {codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';
import {clearOfMidnight} from '../../helpers/wait.ts';
import {addKey} from '../../helpers/workspace.ts';

type Item = Readonly<Record<string, unknown>>;
type Page = {readonly data: readonly Item[]; readonly next_cursor: string | null};

/** Returns the recipients of a message in the order of their addresses: `to` first. */
async function recipientsOf({store}: TestApi, messageId: string): Promise<Array<{id: string; address: string}>> {
	return await recipientRows(store.reader).where({message_id: messageId}).orderBy('id');
}

async function addVariant({store, workspace}: TestApi, subject: string, html: string): Promise<void> {
	await store.database('template_variants').insert({
		version_id: workspace.versionId,
		position: 0,
		locale: null,
		subject,
		kind: 'html',
		source: html,
		html,
		text_source: null,
		text: null,
	});
}

storeTest(test, 'lists recipients in pages, each with its state and next attempt', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send({cc: ['b@example.net', 'A@example.net']}));
	const [to, b] = await recipientsOf(api, id);
	const next = '2099-01-01T00:00:00.000Z';
	const waits = {state: 'queued', next_attempt_at: next, last_reply: '451 later'};
	await changeRecipients(store.database, all => all.where({id: to?.id}), waits);
	await changeRecipients(store.database, all => all.where({id: b?.id}), {state: 'delivered', next_attempt_at: null});
	const {body} = await api.get(`/v1/messages/${id}/recipients`);
	const {data, next_cursor} = body as Page;
	t.is(next_cursor, null);
	t.like(data, [
		{id: to?.id, recipient: 'user@example.org', role: 'to', state: 'queued', last_reply: '451 later'},
		{recipient: 'b@example.net', role: 'cc', state: 'delivered', next_attempt_at: null},
		{recipient: 'A@example.net', role: 'cc', state: 'accepted', last_reply: null},
	]);
	t.is(data[0]?.next_attempt_at, '2099-01-01T00:00:00+00:00');

	const first = (await api.get(`/v1/messages/${id}/recipients?limit=2`)).body as Page;
	const rest = await api.get(`/v1/messages/${id}/recipients?limit=2&cursor=${first.next_cursor}`);
	t.deepEqual([...first.data, ...(rest.body as Page).data], [...data]);
	t.is((rest.body as Page).next_cursor, null);
	t.is((await api.get(`/v1/messages/${id}/attempts?cursor=${first.next_cursor}`)).status, 422);
});

sqliteTest(
	test,
	'lists attempts in order with the SMTP reply, and reveals nothing about our servers',
	async (t, store) => {
		const api = await startApi(t, store);
		const id = idOf(await api.send({cc: ['b@example.net']}));
		const [to, cc] = await recipientsOf(api, id);
		t.deepEqual((await api.get(`/v1/messages/${id}/attempts`)).body, {data: [], next_cursor: null});
		const at = storeTime(Date.now());
		const said = {
			phase: 'rcpt',
			code: 451,
			enhanced: '4.7.1',
			ms: 12,
			ip: '192.0.2.7',
			dialogue: 'C: AUTH x',
			tls: null,
		};
		const row = (recipient_id: string | undefined, n: number, position: number, host: string | null) => ({
			...said,
			recipient_id,
			n,
			position,
			at,
			host,
			reply: `4.7.1 later ${n}.${position}`,
		});
		await store
			.database('attempts')
			.insert([row(cc?.id, 1, 0, 'c'), row(to?.id, 10, 0, 'x'), row(to?.id, 2, 1, 'b'), row(to?.id, 2, 0, null)]);
		const {data} = (await api.get(`/v1/messages/${id}/attempts`)).body as Page;
		t.deepEqual(
			data.map(({recipient, attempt, host}) => [recipient, attempt, host]),
			[
				['user@example.org', 2, null],
				['user@example.org', 2, 'b'],
				['user@example.org', 10, 'x'],
				['b@example.net', 1, 'c'],
			],
		);
		t.like(data[0], {role: 'to', code: 451, enhanced: '4.7.1', reply: '4.7.1 later 2.0', phase: 'rcpt', ms: 12});
		t.notRegex(JSON.stringify(data), /192\.0\.2\.7|AUTH/);

		const seen: Item[] = [];
		let cursor: string | null = '';
		while (cursor !== null) {
			const page = (await api.get(`/v1/messages/${id}/attempts?limit=1${cursor && `&cursor=${cursor}`}`))
				.body as Page;
			seen.push(...page.data);
			cursor = page.next_cursor;
		}
		t.deepEqual(seen, [...data]);
	},
);

test('content and raw return the message as rendered for the given recipient', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	await addVariant(api, 'Hello {{ name }}', '<p>To {{ recipient.email }} of {{ name }}</p>');
	const file = {filename: 'note.txt', contentType: 'text/plain', content: 'YXR0YWNoZWQ='};
	const id = idOf(await api.send({data: {name: 'Zoë <b>'}, cc: ['b+1@example.net'], attachments: [file]}));
	t.deepEqual((await api.get(`/v1/messages/${id}/content`)).body, {
		subject: 'Hello Zoë <b>',
		html: '<p>To user@example.org of Zoë &lt;b&gt;</p>',
		text: 'To user@example.org of Zoë <b>\n',
	});
	const other = await api.get(`/v1/messages/${id}/content?recipient=B+1@example.net`);
	t.regex((other.body as {html: string}).html, /To b\+1@example\.net of/);

	const raw = await api.get(`/v1/messages/${id}/raw`);
	t.is(raw.status, 200);
	t.is(raw.headers.get('content-type'), 'message/rfc822');
	t.is(raw.headers.get('content-disposition'), `attachment; filename="${id}.eml"`);
	const mail = await simpleParser(raw.text);
	t.is(mail.subject, 'Hello Zoë <b>');
	t.is(mail.attachments[0]?.content.toString(), 'attached');
	t.regex(raw.text, /^List-Unsubscribe: <https:\/\/mail\.shop\.example\/unsubscribe\?token=/m);

	const [to] = await recipientsOf(api, id);
	await mkdir(join(api.dataDir, 'captured'));
	await writeFile(join(api.dataDir, 'captured', capturedName(to?.id ?? '')), 'Subject: kept\r\n\r\nas it was\r\n');
	t.is((await api.get(`/v1/messages/${id}/raw`)).text, 'Subject: kept\r\n\r\nas it was\r\n');
	const recipient = await api.get(`/v1/messages/${id}/raw?recipient=b%2B1@example.net`);
	t.regex(recipient.text, /^To b\+1@example\.net of/m);

	const nobody = await api.get(`/v1/messages/${id}/raw?recipient=else@example.net`);
	t.like(nobody.body, {error: {code: 'validation_failed', violations: [{field: 'recipient'}]}});
});

test('signs raw messages, except those of a test key, which could be posted elsewhere', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	await addVariant(api, 'Hello', '<p>Hello</p>');
	const from = 'a@signed.example';
	t.is((await api.post('/v1/senders', {address: from})).status, 201);
	await api.store
		.database('senders')
		.where({address: from})
		.update({verified_at: storeTime(Date.now())});
	api.clear();
	const signaturesBy = async (key: string) => {
		const id = idOf(await api.send({from}, key));
		return (await api.get(`/v1/messages/${id}/raw`)).text.match(/^DKIM-Signature:/gm)?.length ?? 0;
	};
	t.is(await signaturesBy(api.key), 2);
	t.is(await signaturesBy(await addKey(api.store, api.workspace.id, {mode: 'test'})), 0);
});

test('content and raw explain why they cannot be returned, and reveal nothing erased', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const id = idOf(await api.send());
	const refused = async (why: RegExp, parts: readonly string[] = ['content', 'raw']) => {
		for (const part of parts) {
			const answer = await api.get(`/v1/messages/${id}/${part}`);
			t.is(answer.status, 422, answer.text);
			t.is(codeOf(answer), 'unprocessable_entity');
			t.regex(answer.text, why);
		}
	};
	await refused(/The message cannot be rendered again: The template version has no variant\./);
	await addVariant(api, 'x', '{% for a in (1..999999999) %}{% for b in (1..999999999) %}{% endfor %}{% endfor %}');
	// It renders for seconds, until it is stopped.
	await refused(/The message cannot be rendered again: .*limit/, ['content']);
	await api.store.database('senders').delete();
	await refused(/The message cannot be rendered again: its sender was removed\./);
	await api.store
		.database('messages')
		.where({id})
		.update({erased_at: storeTime(Date.now())});
	await refused(/The content of the message was erased/);
});

sqliteTest(test, 'resend creates a new message with the same content and all checks of a send', async (t, store) => {
	const api = await startApi(t, store);
	const file = {filename: 'note.txt', contentType: 'text/plain', content: 'YXR0YWNoZWQ='};
	const id = idOf(
		await api.send({
			to: 'Jose\u0301@example.org',
			cc: ['A@example.net', 'gone@example.net'],
			replyTo: 'Help@example.com',
			data: {b: 1, a: [null]},
			metadata: {order: '7'},
			tags: ['x'],
			locale: 'de-AT',
			timezone: 'Asia/Kolkata',
			tracking: {opens: false},
			attachments: [file],
		}),
	);
	await store.database('contacts').update({locale: 'fr'});
	await store.database('messages').where({id}).update({cc: '["A@example.net","erased@erased.invalid"]'});
	const resent = await api.post(`/v1/messages/${id}/resend`, {});
	t.is(resent.status, 202, resent.text);
	t.is(resent.text, JSON.stringify({id: idOf(resent), status: 'accepted'}));
	const shown = async (which: string) => {
		const {id: _, created_at: __, updated_at: ___, ...rest} = (await api.get(`/v1/messages/${which}`)).body as Item;
		return rest;
	};
	const said = {...(await shown(id)), cc: ['A@example.net'], resent_from: id};
	t.deepEqual(await shown(idOf(resent)), said);
	const row = async (which: string) => {
		const {topic_code, locale, timezone, tracking, data} = await store
			.reader('messages')
			.where({id: which})
			.first();
		return {topic_code, locale, timezone, tracking, data};
	};
	t.deepEqual(await row(idOf(resent)), await row(id));
	t.like(await store.reader('contacts').first(), {locale: 'fr'}, 'what it says of its recipient is old');

	t.is((await api.post('/v1/suppressions', {recipient: 'jos\u00e9@example.org'})).status, 201);
	const refused = await api.post(`/v1/messages/${id}/resend`, {});
	t.is(refused.status, 422);
	t.is(codeOf(refused), 'recipient_suppressed');
	t.truthy(refused.headers.get('ratelimit-limit'));
	await store
		.database('messages')
		.where({id})
		.update({erased_at: storeTime(Date.now())});
	t.is(codeOf(await api.post(`/v1/messages/${id}/resend`, {})), 'unprocessable_entity');
	t.is((await store.reader('messages')).length, 2);
});

sqliteTest(test, 'resend repeats its response for the same Idempotency-Key and message only', async (t, store) => {
	const api = await startApi(t, store);
	const [first, second] = [idOf(await api.send()), idOf(await api.send())];
	const again = (id: string, key = 'k') =>
		api.post(`/v1/messages/${id}/resend`, {}, api.key, {'idempotency-key': key});
	const [one, two] = await Promise.all([again(first), again(first)]);
	t.is(one.text, two.text);
	t.deepEqual(
		[one, two].map(({headers}) => headers.get('idempotent-replayed')).toSorted(),
		[null, 'true'].toSorted(),
	);
	t.is(codeOf(await again(second)), 'idempotency_key_reused');
	t.is(codeOf(await api.send({}, api.key, {'idempotency-key': 'k'})), 'idempotency_key_reused');
	t.is(codeOf(await again(first, 'x'.repeat(256))), 'bad_request');
	t.is((await store.reader('messages')).length, 3);
});

sqliteTest(test, 'resend keeps the mode of the message, whatever the key, and needs no body', async (t, store) => {
	await clearOfMidnight();
	const api = await startApi(t, store, {rateLimit: {requests: 4, windowMs: 86_400_000}});
	const test = await addKey(store, api.workspace.id, {mode: 'test'});
	const [live, mine] = [idOf(await api.send()), idOf(await api.send({}, test))];
	const call = (id: string, key: string) =>
		fetch(`${api.base}/v1/messages/${id}/resend`, {method: 'POST', headers: {authorization: `Bearer ${key}`}});
	const hidden = await call(live, test);
	t.is(hidden.status, 404);
	t.like(await hidden.json(), {error: {code: 'message_not_found'}});
	for (const key of [test, api.key]) {
		const answer = await call(mine, key);
		t.is(answer.status, 202);
		const {id} = (await answer.json()) as {id: string};
		t.like((await api.get(`/v1/messages/${id}`)).body, {mode: 'test', resent_from: mine});
	}
	t.is((await call(live, api.key)).status, 202);
	t.is((await call(live, api.key)).status, 202);
	t.is((await call(live, api.key)).status, 429);
});
