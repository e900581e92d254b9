import test from 'ava';
import {codeOf, idOf, startApi, type TestApi} from '../helpers/api.ts';
import {storeTest} from '../helpers/databases.ts';

const minute = 60_000;
const later = (ms: number) => new Date(Date.now() + ms).toISOString();

const queueOf = async ({store}: TestApi, id: string) =>
	await store
		.reader('queue as q')
		.join('recipients as r', 'r.id', 'q.recipient_id')
		.where({'r.message_id': id})
		.select('q.send_at', 'q.next_attempt_at');

storeTest(test, 'a scheduled send waits with all its copies, and is read with its time', async (t, store) => {
	const api = await startApi(t, store);
	const at = later(60 * minute);
	const id = idOf(await api.send({sendAt: at, cc: ['copy@example.org']}));
	t.deepEqual(await queueOf(api, id), Array(2).fill({send_at: at, next_attempt_at: at}));
	const {body} = await api.get(`/v1/messages/${id}`);
	t.like(body, {status: 'accepted', send_at: `${at.slice(0, 19)}+00:00`});

	const again = idOf(await api.post(`/v1/messages/${id}/resend`, undefined));
	t.false('send_at' in ((await api.get(`/v1/messages/${again}`)).body as object));
	t.is((await queueOf(api, again))[0]?.send_at, null);
});

storeTest(test, 'a time from now counts from acceptance; one that is past is now', async (t, store) => {
	const api = await startApi(t, store);
	const before = Date.now();
	const [soon] = await queueOf(api, idOf(await api.send({sendAt: '+90m'})));
	const waits = Date.parse(soon.send_at) - 90 * minute;
	t.true(before <= waits && waits <= Date.now());
	const past = idOf(await api.send({sendAt: '2020-01-01T00:00:00Z'}));
	t.is((await queueOf(api, past))[0]?.send_at, null);
	t.false('send_at' in ((await api.get(`/v1/messages/${past}`)).body as object));
});

storeTest(test, 'other times are refused on the field, also in a batch', async (t, store) => {
	const api = await startApi(t, store);
	for (const sendAt of [
		'',
		'tomorrow',
		'+2',
		'-2h',
		'+31d',
		'2h',
		'2026-02-30T00:00:00Z',
		later(31 * 1440 * minute),
		5,
	]) {
		const answer = await api.send({sendAt});
		t.is(codeOf(answer), 'validation_failed', String(sendAt));
		t.like(answer.body, {error: {violations: [{field: 'sendAt'}]}});
	}
	const item = {from: api.workspace.sender, to: 'user@example.org', templateId: api.workspace.templateId};
	const {body} = await api.post('/v1/messages/batch', {
		messages: [
			{...item, sendAt: '+30d'},
			{...item, sendAt: 'never'},
		],
	});
	const {data} = body as {data: ReadonlyArray<{status: string; id?: string}>};
	t.deepEqual(
		data.map(({status}) => status),
		['accepted', 'error'],
	);
	t.not((await queueOf(api, data[0]?.id ?? ''))[0]?.send_at, null);
});
