import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {createEngagementWrite, type Engagement, type LinkOwner, mergeEngagement} from '../../src/outcome/engagement.ts';
import {readEngagement} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {readUsage} from '../../src/store/usage.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';

const write = createEngagementWrite(systemClock, eventWriter);
const time = (second: number) => new Date(Date.UTC(2026, 5, 9, 10, 0, second)).toISOString();

function engagement(type: 'opened' | 'clicked', second: number, more: Partial<Engagement> = {}): Engagement {
	return {
		type,
		url: type === 'opened' ? '' : 'https://x.test/',
		n: 1,
		machineN: 0,
		firstAt: time(second),
		lastAt: time(second),
		machine: false,
		userAgent: 'Reader/1.0',
		...more,
	};
}

const tracked = {track_opens_at: time(0), track_clicks_at: time(0)};

/** A tracked message to one address, and its ids. */
async function prepare(store: Store, address = 'Ada@a.test'): Promise<LinkOwner> {
	const {workspaceId} = await insertWorkspace(store, address);
	await store.database('workspaces').where({id: workspaceId}).update(tracked);
	const [messageId] = (await insertMessages(store, workspaceId, [address])) as [string];
	await store.database('recipients').where({message_id: messageId}).update({links: 1});
	return {workspaceId, messageId, role: 'to', address};
}

const timeline = (store: Store, {messageId}: LinkOwner) =>
	readEvents(store.reader, messageId, {after: null, limit: 100});
const counts = (store: Store, {messageId}: LinkOwner) => readEngagement(store.reader, messageId);

storeTest(test, 'adds the first open and the first click of each link to the timeline', async (t, store) => {
	const whose = await prepare(store);
	const hits = [
		engagement('opened', 1),
		engagement('clicked', 2),
		engagement('clicked', 3, {url: 'https://y.test/', userAgent: null, machine: true, machineN: 1}),
		engagement('opened', 4),
		engagement('clicked', 5),
	];
	for (const hit of hits) {
		t.true(await store.writer.submit(write, {...whose, ...hit}));
	}
	const events = await timeline(store, whose);
	t.deepEqual(
		events.map(({type, occurredAt, detail}) => [type, occurredAt, detail]),
		[
			['opened', time(1), {recipient: 'Ada@a.test', role: 'to', machine: false, user_agent: 'Reader/1.0'}],
			[
				'clicked',
				time(2),
				{recipient: 'Ada@a.test', role: 'to', url: 'https://x.test/', machine: false, user_agent: 'Reader/1.0'},
			],
			['clicked', time(3), {recipient: 'Ada@a.test', role: 'to', url: 'https://y.test/', machine: true}],
		],
	);
	t.true(events.every(({recordedAt}) => recordedAt > time(5)));
	t.deepEqual(
		(await counts(store, whose)).map(({recipientId: _, ...count}) => count),
		[
			{kind: 'opened', url: '', n: 2, machineN: 0, firstAt: time(1), lastAt: time(4)},
			{kind: 'clicked', url: 'https://x.test/', n: 2, machineN: 0, firstAt: time(2), lastAt: time(5)},
			{kind: 'clicked', url: 'https://y.test/', n: 1, machineN: 1, firstAt: time(3), lastAt: time(3)},
		],
	);
});

storeTest(test, 'counts a thousand concurrent opens in one row with one event', async (t, store) => {
	const whose = await prepare(store);
	await Promise.all(
		Array.from({length: 1000}, (_, n) =>
			store.writer.submit(write, {
				...whose,
				...engagement('opened', n % 50, {machineN: n % 2}),
			}),
		),
	);
	t.is((await timeline(store, whose)).length, 1);
	t.like(await counts(store, whose), {length: 1, 0: {n: 1000, machineN: 500, lastAt: time(49)}});
});

sqliteTest(test, 'leaves the state unchanged on opens and clicks', async (t, store) => {
	const whose = await prepare(store);
	for (const state of ['accepted', 'queued', 'sent', 'delivered', 'bounced', 'complained', 'suppressed', 'errored']) {
		await store.database('recipients').update({state});
		await store.writer.submit(write, {...whose, ...engagement('clicked', 1, {url: `https://x.test/${state}`})});
		t.is((await store.reader('recipients').first()).state, state);
	}
	t.is((await timeline(store, whose)).length, 8);
});

sqliteTest(test, 'records a first open for each recipient', async (t, store) => {
	const whose = await prepare(store);
	const to = await store.reader('recipients').first();
	await store.database('recipients').insert({...to, id: newId('rcp'), address: 'Ada@a.test', role: 'cc'});
	for (const role of ['to', 'cc', 'to', 'cc'] as const) {
		t.true(await store.writer.submit(write, {...whose, role, ...engagement('opened', 1)}));
	}
	t.deepEqual(
		(await timeline(store, whose)).map(({type, detail}) => [type, detail.role]),
		[
			['opened', 'to'],
			['opened', 'cc'],
		],
	);
	t.deepEqual(
		(await counts(store, whose)).map(({n}) => n),
		[2, 2],
	);
	// Usage counts messages: the first open by their `to` recipient.
	const recorded = (await timeline(store, whose))[0]?.recordedAt ?? '';
	t.deepEqual(await readUsage(store.reader, whose.workspaceId, 'hours', ''), [
		{time: recorded.slice(0, 13), status: 'opened', n: 1},
	]);
});

sqliteTest(test, 'silently ignores hits on removed, erased or no longer tracked messages', async (t, store) => {
	const whose = await prepare(store);
	const passedOver = async (other: Partial<LinkOwner>, type: 'opened' | 'clicked' = 'opened') =>
		!(await store.writer.submit(write, {...whose, ...other, ...engagement(type, 1)}));
	t.true(await passedOver({messageId: newId('msg')}));
	t.true(await passedOver({workspaceId: newId('ws')}));
	t.true(await passedOver({role: 'cc'}));
	t.true(await passedOver({address: 'ada@a.test'}), 'a token holds the spelling');

	await store.database('workspaces').update({track_opens_at: null});
	t.true(await passedOver({}));
	t.false(await passedOver({}, 'clicked'));
	await store.database('workspaces').update({...tracked, track_clicks_at: null});
	t.true(await passedOver({}, 'clicked'));

	await store.database('workspaces').update(tracked);
	await store.database('messages').update({erased_at: time(9)});
	t.true(await passedOver({}));
	await store.database('messages').update({erased_at: null});
	await store.database('recipients').update({address: 'erased@erased.invalid'});
	t.true(await passedOver({}));
	t.deepEqual(
		(await timeline(store, whose)).map(({type}) => type),
		['clicked'],
	);
});

storeTest(test, 'counts clicks on the longest possible link', async (t, store) => {
	const whose = await prepare(store);
	// Incompressible text: an index entry of PostgreSQL must hold it.
	const random = Array.from({length: 2033}, () => String.fromCharCode(0x21 + Math.floor(Math.random() * 94))).join(
		'',
	);
	const url = `https://x.test/${random}`;
	t.is(url.length, 2048);
	for (const n of [1, 2]) {
		t.true(await store.writer.submit(write, {...whose, ...engagement('clicked', n, {url})}));
	}
	t.like(await counts(store, whose), {length: 1, 0: {n: 2, url}});
});

storeTest(
	test,
	'adds an event for a person’s first click after a machine’s, written together or separately',
	async (t, store) => {
		const machine = {machine: true, machineN: 1, userAgent: 'Scanner/1.0'};
		for (const together of [false, true]) {
			const whose = await prepare(store, `ada${together}@a.test`);
			const hits = [engagement('clicked', 1, machine), engagement('clicked', 2), engagement('clicked', 3)];
			const submit = (hit: Engagement) => store.writer.submit(write, {...whose, ...hit});
			if (together) {
				await submit(hits.reduce((earlier, later) => mergeEngagement(earlier, later)));
			} else {
				for (const hit of hits) {
					await submit(hit);
				}
			}
			await submit(engagement('clicked', 4, machine));
			t.deepEqual(
				(await timeline(store, whose)).map(({occurredAt, detail}) => [
					occurredAt,
					detail.machine,
					detail.user_agent,
				]),
				[
					[time(1), true, 'Scanner/1.0'],
					[time(2), false, 'Reader/1.0'],
				],
			);
			t.like(await counts(store, whose), {length: 1, 0: {n: 4, machineN: 2}});
		}
	},
);

sqliteTest(test, 'records one event for opens by machines and people', async (t, store) => {
	const whose = await prepare(store);
	for (const hit of [engagement('opened', 1, {machine: true, machineN: 1}), engagement('opened', 2)]) {
		await store.writer.submit(write, {...whose, ...hit});
	}
	t.is((await timeline(store, whose)).length, 1);
});

storeTest(test, 'treats clicks on all links soon after delivery as made by a machine', async (t, store) => {
	const cases = [
		{links: 2, together: 2, after: 1, machine: true},
		{links: 2, together: 2, after: 31, machine: false},
		{links: 3, together: 2, after: 1, machine: false},
		{links: 1, together: 1, after: 1, machine: false},
		{links: null, together: 9, after: 1, machine: false},
		// A filter may follow the links before its mail server accepts the message.
		{links: null, together: 2, after: 99, machine: true, state: 'accepted'},
		{links: null, together: 1, after: 1, machine: false, state: 'queued'},
	];
	for (const {links, together, after, machine, state = 'delivered'} of cases) {
		const whose = await prepare(store, `ada${links}-${together}-${after}-${state}@a.test`);
		await store
			.database('recipients')
			.where({message_id: whose.messageId})
			.update({links, state, state_at: time(0)});
		const unknown = await store.writer.submit(write, {...whose, ...engagement('clicked', after)});
		t.is(unknown, state !== 'delivered' || (links !== null && links > 1 && after === 1) ? 'wait' : true);
		await store.writer.submit(write, {...whose, ...engagement('clicked', after, {together})});
		await store.writer.submit(write, {...whose, ...engagement('clicked', after + 1, {together: 1})});
		t.deepEqual(
			(await timeline(store, whose)).map(({detail}) => detail.machine),
			machine ? [true, false] : [false],
			JSON.stringify({links, together, after}),
		);
	}
});
