import test from 'ava';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {addKey} from '../../helpers/workspace.ts';

type Violations = ReadonlyArray<{readonly field: string; readonly message: string}>;

sqliteTest(test, 'returns names and header fields as sent, and omits them if none were set', async (t, store) => {
	const api = await startApi(t, store);
	const sent = await api.send({
		...{toName: 'Zoë Müller', replyTo: 'help@example.com', replyToName: 'Help, please'},
		headers: {'X-Entity-Ref-ID': '77', importance: 'high', 'AUTO-submitted': 'no'},
	});
	t.is(sent.status, 202, sent.text);
	const {body} = await api.get(`/v1/messages/${idOf(sent)}`);
	t.like(body, {
		to_name: 'Zoë Müller',
		reply_to_name: 'Help, please',
		headers: {'X-Entity-Ref-ID': '77', Importance: 'high', 'Auto-Submitted': 'no'},
	});
	const again = await api.post(`/v1/messages/${idOf(sent)}/resend`, '{}');
	t.like((await api.get(`/v1/messages/${idOf(again)}`)).body, {
		to_name: 'Zoë Müller',
		headers: {Importance: 'high'},
	});
	const plain = (await api.get(`/v1/messages/${idOf(await api.send())}`)).body as object;
	t.false('to_name' in plain || 'reply_to_name' in plain || 'headers' in plain);
});

sqliteTest(test, 'rejects header fields that are not allowed and names them', async (t, store) => {
	const api = await startApi(t, store);
	const many = Object.fromEntries(Array.from({length: 21}, (_, n) => [`X-${n}`, 'a']));
	const id = '<a@b.example>';
	const refused: ReadonlyArray<readonly [fields: object, ...at: string[]]> = [
		...[
			...[
				'From',
				'to',
				'Bcc',
				'Subject',
				'Sender',
				'Date',
				'DKIM-Signature',
				'List-Unsubscribe',
				'Content-Type',
				'X-',
				'',
			],
			...[
				'X-Mailctl-Ref',
				'x-ses-configuration-set',
				'X-SMTPAPI',
				'X-Mailgun-Tag',
				'X-PM-Tag',
				'X-MC-Tags',
				'X-MJ-CustomID',
			],
			...[
				'X-MSYS-API',
				'X-Mailin-custom',
				'X-Original-To',
				'X-Google-DKIM-Signature',
				'X-Authentication-Results',
				'X-To',
			],
			...['X-A b', 'X-A:', 'X-A\r\nBcc', 'X-é', `X-${'a'.repeat(80)}`],
		].map(name => [JSON.parse(`{"headers":{${JSON.stringify(name)}:"a"}}`), `headers.${name}`] as const),
		...['a\r\nBcc: eve@evil.test', 'a\n', '\r', '\0', 'a\ud800', '', 'é'.repeat(500), 'a\u2028b'].map(
			value => [{headers: {'X-A': value}}, 'headers.X-A'] as const,
		),
		...['a@b', '<a>', `${id},${id}`, `${id} ${id} `, '<é@b>', `<${'a'.repeat(900)}@b>`].map(
			value => [{headers: {references: value}}, 'headers.references'] as const,
		),
		[{headers: {Importance: 'urgent', 'Auto-Submitted': 'a b'}}, 'headers.Importance', 'headers.Auto-Submitted'],
		[{headers: {'X-A': 'a', 'x-a': 'b'}}, 'headers.x-a'],
		[{headers: {'X-A': 1, 'X-B': null}}, 'headers.X-A', 'headers.X-B'],
		[{headers: many}, 'headers'],
		[{headers: []}, 'headers'],
		[{headers: {References: id}, inReplyTo: 'msg_1'}, 'inReplyTo'],
		[{replyToName: 'Help'}, 'replyToName'],
		[{toName: 'a\nb', replyTo: 'a@example.com', replyToName: ''}, 'toName', 'replyToName'],
	];
	for (const [fields, ...at] of refused) {
		const {status, body} = await api.send(fields);
		t.is(status, 422, JSON.stringify(fields));
		const {violations} = (body as {error: {violations: Violations}}).error;
		t.deepEqual(
			violations.map(({field}) => field),
			at,
		);
		t.true(violations.every(({message}) => message.startsWith('must ')));
	}
	const most = {'X-A': 'a'.repeat(998), 'X-B': `${'a b'.repeat(10)} é`, References: [id, id].join(' ')};
	t.is((await api.send({headers: {...most, 'Auto-Submitted': 'auto-replied; owner-email=a'}})).status, 202);
});

sqliteTest(
	test,
	'inReplyTo threads by our Message-ID, or by the one of a message submitted over SMTP',
	async (t, store) => {
		const api = await startApi(t, store);
		const read = async (id: string) =>
			(await api.get(`/v1/messages/${id}`)).body as {headers: Record<string, string>};
		const first = idOf(await api.send());
		const ours = (id: string) => `<${api.links.messageIdLocal(id)}@example.com>`;
		const second = idOf(await api.send({inReplyTo: first, headers: {'X-A': '1'}}));
		t.deepEqual((await read(second)).headers, {'In-Reply-To': ours(first), References: ours(first), 'X-A': '1'});
		const letter = {from: 'hello@example.com', to: 'user@example.org', templateId: api.workspace.templateId};
		const batch = await api.post('/v1/messages/batch', {
			messages: [{...letter, inReplyTo: second}, {...letter, inReplyTo: 'msg_1'}, letter],
		});
		const {data} = batch.body as {data: Array<{status: string; id: string; error?: object}>};
		t.deepEqual((await read(data[0]?.id ?? '')).headers, {
			'In-Reply-To': ours(second),
			References: `${ours(first)} ${ours(second)}`,
		});
		t.deepEqual(data[1]?.error, {
			code: 'validation_failed',
			message: 'inReplyTo must be a message of this workspace, msg_…',
		});
		t.is(data[2]?.status, 'accepted');

		// A long thread keeps the IDs of its first and its newest messages.
		let last = second;
		for (let n = 0; n < 20; n++) {
			last = idOf(await api.send({inReplyTo: last}));
		}
		const {References: references = ''} = (await read(last)).headers;
		t.true(references.startsWith(`${ours(first)} `) && references.length <= 998 && references.length > 900);

		await store.database('attachments').insert({
			...{message_id: first, position: 0, filename: '<own@shop.example>', content_type: 'message/rfc822'},
			content: Buffer.from(''),
		});
		t.is((await read(idOf(await api.send({inReplyTo: first})))).headers['In-Reply-To'], '<own@shop.example>');
		const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
		for (const [own, key] of [
			[{inReplyTo: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n'}, undefined],
			[{inReplyTo: first}, testKey],
		] as const) {
			const answer = await api.send(own, key);
			t.is(codeOf(answer), 'validation_failed', answer.text);
			t.like(answer.body, {error: {violations: [{field: 'inReplyTo'}]}});
		}
	},
);
