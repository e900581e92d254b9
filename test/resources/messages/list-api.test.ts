import test from 'ava';
import fc from 'fast-check';
import {idFloor} from '../../../src/mail/ids.ts';
import {subjectTerms} from '../../../src/mail/terms.ts';
import {insertTerms} from '../../../src/store/message-terms.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {type Answer, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {changeRecipients} from '../../helpers/recipient-rows.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

type View = {readonly id: string; readonly created_at: string} & Readonly<Record<string, unknown>>;
type Page = {readonly data: readonly View[]; readonly next_cursor: string | null};

const list = async (api: TestApi, query = '', key = api.key): Promise<Page> => {
	const answer = await api.get(`/v1/messages${query}`, key);
	if (answer.status !== 200) {
		throw new Error(`${query}: ${answer.status} ${answer.text}`);
	}
	return answer.body as Page;
};

const idsOf = ({data}: Page) => data.map(({id}) => id);

function violatedFields(answer: Answer): string[] {
	const {error} = answer.body as {error: {code: string; violations: Array<{field: string}>}};
	return error.code === 'validation_failed' ? error.violations.map(({field}) => field) : [error.code];
}

sqliteTest(test, 'lists messages newest first, each as it is returned by its ID', async (t, store) => {
	conforms(t, 'messages.list.answer');
	const api = await startApi(t, store);
	const files = ['a.pdf', 'b.pdf'].map(filename => ({filename, contentType: 'application/pdf', content: 'JVBERi0='}));
	const sent = [
		await api.send({attachments: files, data: {n: 1}, metadata: {a: 'b'}, tags: ['x'], cc: ['c@example.net']}),
		await api.send({attachments: files.slice(1)}),
		await api.send(),
	].map(idOf);
	const page = await list(api);
	t.deepEqual(idsOf(page), sent.toReversed());
	t.is(page.next_cursor, null);
	for (const item of page.data) {
		t.deepEqual(item, (await api.get(`/v1/messages/${item.id}`)).body as View);
	}
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	t.deepEqual(await list(api, '', stranger), {data: [], next_cursor: null});
});

storeTest(test, 'reads a page of any length with the same few queries', async (t, store) => {
	const api = await startApi(t, store);
	for (let n = 0; n < 12; n++) {
		await api.send({attachments: [{filename: `${n}.txt`, contentType: 'text/plain', content: 'eA=='}]});
	}
	let queries = 0;
	await list(api);
	const count = () => {
		queries++;
	};
	store.reader.on('query', count);
	await list(api, '?limit=2');
	const few = queries;
	await list(api, '?limit=11');
	store.reader.removeListener('query', count);
	t.is(queries, 2 * few);
	t.true(few <= 4);
});

storeTest(test, 'each filter selects the right messages, alone and combined', async (t, store) => {
	conforms(t, 'messages.list.status', 'messages.list.recipient', 'messages.list.from');
	conforms(t, 'messages.list.templateId');
	const api = await startApi(t, store);
	const template = newId('tpl');
	const at = '2026-06-09T10:15:30.123Z';
	await store.database('templates').insert({
		...{id: template, public_id: template, workspace_id: api.workspace.id, name: 'other', latest_version: 1},
		...{created_at: at, updated_at: at},
	});
	await store
		.database('template_versions')
		.insert({id: newId('tpv'), template_id: template, version: 1, fingerprint: 'x', created_at: at});
	await store.database('senders').insert({
		...(await store.reader('senders').where({workspace_id: api.workspace.id}).first()),
		...{id: newId('snd'), address: 'News@example.com', address_key: 'news@example.com'},
	});
	const one = idOf(await api.send({to: 'José@MÜNCHEN.de'}));
	const two = idOf(await api.send({from: 'news@example.com'}));
	const three = idOf(await api.send({templateId: template, cc: ['josé@münchen.de'.replace('é', 'e')]}));
	await changeRecipients(store.database, all => all.where({message_id: two}), {
		state: 'bounced',
		next_attempt_at: null,
	});

	const ids = async (query: Record<string, string>) => idsOf(await list(api, `?${new URLSearchParams(query)}`));
	t.deepEqual(await ids({recipient: 'JOSÉ@xn--mnchen-3ya.de'}), [one]);
	t.deepEqual(await ids({recipient: 'jose@münchen.de'}), [], 'copies to cc do not count');
	t.deepEqual(await ids({recipient: 'user@example.org'}), [three, two]);
	t.deepEqual(await ids({from: 'NEWS@EXAMPLE.COM'}), [two]);
	t.deepEqual(await ids({from: 'hello@example.com'}), [three, one]);
	t.deepEqual(await ids({status: 'bounced'}), [two]);
	t.deepEqual(await ids({status: 'accepted'}), [three, one]);
	t.deepEqual(await ids({status: 'errored'}), []);
	t.deepEqual(await ids({templateId: template}), [three]);
	t.deepEqual(await ids({templateId: api.workspace.templateId}), [two, one]);
	for (const templateId of [newId('tpl'), 'x', '', '\0', '\ud800', two, template.toUpperCase()]) {
		t.deepEqual(await ids({templateId}), []);
	}
	t.deepEqual(await ids({status: 'accepted', recipient: 'user@example.org', templateId: template}), [three]);
	t.deepEqual(await ids({status: 'bounced', templateId: template}), []);
});

storeTest(test, 'finds messages by subject, metadata, tag and Message-ID', async (t, store) => {
	const api = await startApi(t, store);
	const one = idOf(await api.send({metadata: {order_id: '1042', shop: 'north'}, tags: ['receipt', 'vip']}));
	const two = idOf(await api.send({metadata: {order_id: '1043', 'a[b]=c': 'x'}, tags: ['receipt']}));
	const three = idOf(await api.send());
	const other = await addWorkspace(store, 'globex');
	await store.writer.transaction(trx =>
		insertTerms(trx, [
			...[one, two].map(messageId => ({
				...{
					workspaceId: api.workspace.id,
					messageId,
					terms: subjectTerms(`Ihr Beleg ${messageId === one ? 1 : 2}`),
				},
			})),
			{workspaceId: other.id, messageId: three, terms: ['w:beleg', 't:vip']},
		]),
	);
	const ids = async (query: string) => idsOf(await list(api, `?${query}`));
	for (const [query, found] of [
		['metadata[order_id]=1042', [one]],
		['metadata%5Border_id%5D=1042', [one]],
		['metadata[order_id]=1042&metadata[shop]=north', [one]],
		['metadata[order_id]=1043&metadata[shop]=north', []],
		['metadata[order_id]=104', []],
		['metadata[a%5Bb%5D%3Dc]=x', [two]],
		['tag=receipt', [two, one]],
		['tag=vip', [one]],
		['tag=receip', []],
		['subject=BELEG', [two, one]],
		['subject=2+beleg', [two]],
		['subject=bele', []],
		['subject=beleg&tag=vip&metadata[shop]=north&status=accepted', [one]],
		[`messageId=${encodeURIComponent(`<${api.links.messageIdLocal(two)}@mail.shop.example>`)}`, [two]],
		[`messageId=${api.links.messageIdLocal(two)}@mail.shop.example&tag=vip`, []],
		['messageId=abc@x.example', []],
		['messageId=', []],
		['q=1042', [one]],
		['q=BELEG', [two, one]],
		['q=beleg+1043', [two]],
		['q=beleg+north', [one]],
		['q=X&tag=receipt', [two]],
		['q=104', []],
		['q=order_id', []],
		['q=%20', []],
	] as const) {
		t.deepEqual(await ids(query), [...found], query);
	}
	for (const [query, field] of [
		['metadata=x', 'metadata'],
		['metadata[]=x', 'metadata'],
		['metadata[a]=1&metadata[a]=2', 'metadata.a'],
		[`metadata[a]=${'x'.repeat(501)}`, 'metadata.a'],
		['metadata[a]=1&metadata=x', 'metadata[a]'],
		['metadata.a=1', 'metadata.a'],
		['metadata[a', 'metadata[a'],
		['subject=', 'subject'],
		['subject=-', 'subject'],
		['q=', 'q'],
		['q=%00', 'q'],
		[`q=${'x'.repeat(501)}`, 'q'],
		['tags=x', 'tags'],
		['tag=%00', 'tag'],
	] as const) {
		const answer = await api.get(`/v1/messages?${query}`);
		t.like(answer, {status: 422}, `${query}: ${answer.text}`);
		t.true(violatedFields(answer).includes(field), `${query}: ${answer.text}`);
	}

	const page = await list(api, '?tag=receipt&metadata[order_id]=1042&limit=1');
	t.is(page.next_cursor, null);
	const first = await list(api, '?tag=receipt&limit=1');
	const ofText = await list(api, '?q=beleg&limit=1');
	t.deepEqual(idsOf(await list(api, `?q=beleg&limit=1&cursor=${ofText.next_cursor}`)), [one]);
	t.deepEqual(idsOf(await list(api, `?tag=receipt&limit=1&cursor=${first.next_cursor}`)), [one]);
	t.is((await api.get(`/v1/messages?tag=vip&limit=1&cursor=${first.next_cursor}`)).status, 422);
});

sqliteTest(test, 'accepts an unencoded plus sign in an address in a query', async (t, store) => {
	const api = await startApi(t, store);
	const one = idOf(await api.send({to: 'ada+shop@example.org'}));
	await api.send({to: 'ada@example.org'});
	for (const plus of ['+', '%2B', '%20']) {
		const address = `ada${plus}shop@example.org`;
		t.deepEqual(idsOf(await list(api, `?recipient=${address}`)), [one]);
		t.deepEqual(idsOf(await list(api, `?from=${address}`)), []);
		t.like((await api.get(`/v1/contacts?email=${address}`)).body, {data: [{email: 'ada+shop@example.org'}]});
		t.like((await api.get(`/v1/suppressions?recipient=${address}`)).body, {data: []});
	}
});

sqliteTest(test, 'createdAfter and createdBefore form a half-open range of any RFC 3339 times', async (t, store) => {
	conforms(t, 'messages.list.created');
	let now = Date.parse('2026-06-09T10:15:30Z');
	const api = await startApi(t, store, {clock: {now: () => now, monotonic: () => now}});
	const insert = async (time: string) => {
		now = Date.parse(time);
		const row = await store.reader('messages').first();
		const id = idFloor('msg', now);
		await store.database('messages').insert({...row, id, created_at: new Date(now).toISOString()});
		await store.database('recipients').insert({
			...(await store.reader('recipients').where({message_id: row.id}).first()),
			...{id: idFloor('rcp', now), message_id: id},
		});
		return id;
	};
	const first = idOf(await api.send());
	const [a, b] = [await insert('2026-07-01T00:00:00Z'), await insert('2026-07-02T12:00:00.500Z')];
	await store.database('recipients').where({message_id: first}).delete();
	await store.database('messages').where({id: first}).delete();
	for (const [query, expected] of [
		['createdAfter=2026-07-01', [b, a]],
		['createdAfter=2026-07-01T00:00:00.001Z', [b]],
		['createdBefore=2026-07-01', []],
		['createdBefore=2026-07-01T00:00:00.001Z', [a]],
		['createdAfter=2026-07-02T12:00:00.500Z&createdBefore=2026-07-02T12:00:00.501Z', [b]],
		['createdAfter=2026-07-02T14:00:00+02:00', [b]],
		['createdAfter=2026-07-02T14:00:01%2B02:00', []],
		['createdAfter=2026-07-02T14:00:00%2B02:00', [b]],
		['createdBefore=2026-07-02T12:00:00', [a]],
		['createdAfter=2026-07-03&createdBefore=2026-07-01', []],
		['createdAfter=0000-01-01&createdBefore=9999-12-31', [b, a]],
	] as const) {
		t.deepEqual(idsOf(await list(api, `?${query}`)), [...expected], query);
	}
});

sqliteTest(test, 'rejects an invalid filter value and names the filter', async (t, store) => {
	conforms(t, 'messages.list.limit');
	const api = await startApi(t, store);
	for (const [query, ...fields] of [
		['status=sending', 'status'],
		['status=', 'status'],
		['status=Bounced', 'status'],
		['recipient=x', 'recipient'],
		['recipient=', 'recipient'],
		['recipient=A%20%3Ca@b.example%3E', 'recipient'],
		['from=x@', 'from'],
		['from=jos%C3%A9@example.com', 'from'],
		['createdAfter=2026-02-30', 'createdAfter'],
		['createdAfter=yesterday&createdBefore=', 'createdAfter', 'createdBefore'],
		['createdBefore=1781000130', 'createdBefore'],
		['limit=0', 'limit'],
		['limit=101', 'limit'],
		['limit=5.0', 'limit'],
		['limit=+5', 'limit'],
		['limit=0x5', 'limit'],
		['limit=05', 'limit'],
		['limit=1e1', 'limit'],
		['limit=%205', 'limit'],
		['limit=-1', 'limit'],
		['limit=', 'limit'],
		['cursor=', 'cursor'],
		['cursor=x', 'cursor'],
		['status=sent&status=sent', 'status'],
		['templateId=a&templateId=b', 'templateId'],
		['template_id=x', 'template_id'],
		['Status=sent', 'Status'],
		['status[]=sent', 'status[]'],
		['a=1&limit=x&status=y', 'a', 'limit', 'status'],
	] as const) {
		const answer = await api.get(`/v1/messages?${query}`);
		t.is(answer.status, 422, query);
		t.deepEqual(violatedFields(answer).sort(), [...fields].sort(), query);
	}
	t.deepEqual(api.reported, []);
});

sqliteTest(test, 'a cursor works only with its workspace and its filters, in any spelling', async (t, store) => {
	conforms(t, 'messages.list.cursor', 'cursor.pages');
	const api = await startApi(t, store);
	const ids: string[] = [];
	for (let n = 0; n < 5; n++) {
		ids.push(idOf(await api.send()));
	}
	const first = await list(api, '?limit=2&recipient=user@example.org&createdAfter=2000-01-01');
	t.deepEqual(idsOf(first), ids.slice(3).toReversed());
	const cursor = first.next_cursor ?? '';
	const second = await list(
		api,
		`?limit=3&recipient=USER@example.org&createdAfter=2000-01-01T00:00:00Z&cursor=${cursor}`,
	);
	t.deepEqual(idsOf(second), ids.slice(0, 3).toReversed());
	t.is(second.next_cursor, null);
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	const filters = '&recipient=user@example.org&createdAfter=2000-01-01';
	for (const [query, key] of [
		['', api.key],
		['&recipient=user@example.org', api.key],
		['&recipient=other@example.org&createdAfter=2000-01-01', api.key],
		['&recipient=user@example.org&createdBefore=2000-01-01', api.key],
		[`${filters}&status=accepted`, api.key],
		[`${filters}&templateId=x`, api.key],
		[filters, stranger],
	] as const) {
		const answer = await api.get(`/v1/messages?cursor=${cursor}${query}`, key);
		t.is(answer.status, 422, query);
		t.deepEqual(violatedFields(answer), ['cursor'], query);
	}
	t.is((await api.get(`/v1/messages?cursor=${cursor}${filters}`, api.key)).status, 200);
	t.is((await api.get(`/v1/messages/${ids[0]}/events?cursor=${cursor}`)).status, 422);
});

storeTest(test, 'no query, however malformed, causes a 500', async (t, store) => {
	const api = await startApi(t, store);
	await api.send();
	const names = fc.constantFrom(
		...[
			'status',
			'recipient',
			'from',
			'templateId',
			'createdAfter',
			'createdBefore',
			'limit',
			'cursor',
			'__proto__',
			'',
		],
	);
	const values = fc.oneof(
		fc.string({unit: anyChar}),
		fc.constantFrom('%', '%00', '%ff', 'sent', 'a@b.example', '2026-01-01', '10', '\ud800', "' or 1=1 --"),
		fc.emailAddress(),
		fc.date({noInvalidDate: true}).map(date => date.toISOString()),
	);
	const query = fc
		.array(fc.tuple(names, values, fc.boolean()), {maxLength: 5})
		.map(pairs =>
			pairs
				.map(
					([name, value, encoded]) =>
						`${name}=${encoded ? encodeURIComponent(wellFormed(value)) : asUrl(value)}`,
				)
				.join('&'),
		);
	await fc.assert(
		fc.asyncProperty(query, async text => {
			const {status} = await api.get(`/v1/messages?${text}`);
			t.true([200, 400, 422].includes(status), `${status} ${text}`);
		}),
		{numRuns: 100},
	);
	t.deepEqual(api.reported, []);
});

// The characters that a client can put on a request line.
function asUrl(text: string): string {
	return text.replaceAll(/[^\x21-\x7e]|#/g, '');
}

function wellFormed(text: string): string {
	return text.replaceAll(/\p{Cs}/gu, '\ufffd');
}

storeTest(test, 'ends a page of messages before the response gets too large', async (t, store) => {
	const api = await startApi(t, store);
	const large = {data: {text: 'x'.repeat(250_000)}};
	const sent: string[] = [];
	for (const fields of [{}, large, large, large, large, large, {}, large]) {
		sent.push(idOf(await api.send(fields)));
	}
	const first = await list(api, '?limit=100');
	t.deepEqual(idsOf(first), sent.slice(-5).toReversed());
	const second = await list(api, `?limit=100&cursor=${first.next_cursor}`);
	t.deepEqual(idsOf(second), sent.slice(0, -5).toReversed());
	t.is(second.next_cursor, null);
});
