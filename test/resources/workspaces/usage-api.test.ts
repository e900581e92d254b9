import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import type {EventType} from '../../../src/mail/message.ts';
import {announce} from '../../../src/outcome/outbox.ts';
import type {Store} from '../../../src/store/store.ts';
import {startApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {eventWriter} from '../../helpers/messages.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

const now = Date.UTC(2026, 10, 21, 23, 59, 59);
const dayMs = 86_400_000;

type Usage = {readonly days?: ReadonlyArray<Record<string, unknown>>} & Record<string, unknown>;

storeTest(test, 'reports what was accepted this month, what is left and when the month ends', async (t, store) => {
	conforms(t, 'rate.usage', 'other.usage');
	let time = now;
	const api = await startApi(t, store, {clock: {now: () => time, monotonic: () => 0}});
	const usage = async () => {
		const answer = await api.get('/v1/usage');
		t.is(answer.status, 200);
		return answer.body;
	};
	const month = {
		period: '2026-11',
		period_start: '2026-11-01T00:00:00+00:00',
		period_end: '2026-12-01T00:00:00+00:00',
		reset: Date.UTC(2026, 11) / 1000,
	};
	t.deepEqual(await usage(), {...month, accepted: 0, test: 0, quota: null, remaining: null});
	await api.send({cc: ['a@example.net', 'b@example.net']});
	await api.send({}, await addKey(store, api.workspace.id, {mode: 'test'}));
	await api.send({to: 'delivered@simulator.test'});
	await api.send({to: 'nobody'});
	await store.database('workspaces').where({id: api.workspace.id}).update({monthly_quota: 10});
	t.deepEqual(await usage(), {...month, accepted: 1, test: 2, quota: 10, remaining: 9});
	await store.database('workspaces').where({id: api.workspace.id}).update({monthly_quota: 0});
	t.like(await usage(), {quota: 0, remaining: 0});
	time = Date.UTC(2026, 11);
	t.like(await usage(), {period: '2026-12', accepted: 0, test: 0, reset: Date.UTC(2027, 0) / 1000});

	const other = await addKey(store, (await addWorkspace(store, 'other')).id);
	t.like((await api.get('/v1/usage', other)).body, {accepted: 0, test: 0, quota: null});
	const scopeless = await addKey(store, api.workspace.id, {scopes: '["messages:read"]'});
	t.is((await api.get('/v1/usage', scopeless)).status, 403);
});

async function announceAll(store: Store, events: ReadonlyArray<[EventType, number, boolean]>) {
	const recipient = await store.reader('recipients').first();
	await store.writer.transaction(trx =>
		announce(
			trx,
			events.map(([type, at, counted]) => ({
				id: newId('evt'),
				workspaceId: recipient.workspace_id,
				messageId: recipient.message_id,
				recipientId: recipient.id,
				recipient: recipient.address,
				type,
				occurredAt: storeTime(at - dayMs),
				recordedAt: storeTime(at),
				detail: null,
				isCounted: counted,
			})),
			eventWriter,
		),
	);
}

storeTest(test, 'counts accepted messages and events of live messages by day', async (t, store) => {
	let time = now;
	const api = await startApi(t, store, {clock: {now: () => time, monotonic: () => 0}});
	time -= 89 * dayMs;
	await api.send();
	time += dayMs;
	await Promise.all([api.send(), api.send({to: 'a@example.org'})]);
	time = now;
	await api.send();
	await api.send({to: 'x@simulator.test'});
	await announceAll(store, [
		['delivered', now, true],
		['sent', now, true],
		['opened', now, true],
		['delivered', now, false],
		['delivered', now, true],
		['complained', now, true],
		['bounced', now - dayMs, true],
	]);
	await announceAll(store, [['delivered', now, true]]);

	const days = async (count: number) => ((await api.get(`/v1/usage?days=${count}`)).body as Usage).days;
	const today = {day: '2026-11-21', accepted: 1, delivered: 3, bounced: 0, complained: 1};
	const yesterday = {day: '2026-11-20', accepted: 0, delivered: 0, bounced: 1, complained: 0};
	t.deepEqual(await days(1), [today]);
	t.deepEqual(await days(2), [today, yesterday]);
	const all = (await days(90)) ?? [];
	t.is(all.length, 90);
	t.deepEqual(
		all.map(({day}) => day),
		all
			.map(({day}) => day)
			.toSorted()
			.toReversed(),
	);
	t.like(all[88], {day: '2026-08-25', accepted: 2, delivered: 0});
	t.like(all[89], {day: '2026-08-24', accepted: 1});
	t.is(((await api.get('/v1/usage')).body as Usage).days, undefined);
});

sqliteTest(test, 'accepts only a whole number from 1 to 90 as days', async (t, store) => {
	const api = await startApi(t, store);
	for (const days of ['0', '91', '-1', '01', '1.0', '1e1', '%201', '', '0x5', '5&days=5', 'ten']) {
		const answer = await api.get(`/v1/usage?days=${days}`);
		t.is(answer.status, 422, days);
		t.like(
			(answer.body as {error: object}).error,
			{code: 'validation_failed', violations: [{field: 'days'}]},
			days,
		);
	}
});
