import test from 'ava';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext, type JudgedAttempt} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import {readEngagement} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';

const at = '2026-06-09T10:00:00.000Z';
const boot = newId('req');
const write = createRecordWrite(boot, eventWriter);
const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 3_600_000};
const made = {subject: 'Hello', firstLink: 'https://shop.example/', links: 1};

type Tracks = {readonly track_opens_at?: string; readonly track_clicks_at?: string};

async function claimed(store: Store, tracks: Tracks, tracking: string | null = null): Promise<Claimed> {
	const {workspaceId} = await insertWorkspace(store, newId('ws'));
	if (Object.keys(tracks).length > 0) {
		await store.database('workspaces').where({id: workspaceId}).update(tracks);
	}
	const [messageId] = await insertMessages(store, workspaceId, ['complained@simulator.test']);
	await store.database('messages').where({id: messageId}).update({tracking});
	const {id} = await recipientRows(store.reader).where({message_id: messageId}).first();
	await changeRecipients(store.database, all => all.where({id}), {state: 'queued', claimed_by: boot});
	return (await readRecipient(store.reader, workspaceId, id)) as Claimed;
}

function delivered(
	recipient: Claimed,
	follows: 'complained' | 'opened' | 'clicked',
	more: Partial<JudgedAttempt> = {},
): JudgedAttempt {
	const outcome: Outcome = {kind: 'delivered', follows};
	const result: AttemptResult = {recipientId: recipient.id, outcome, attempts: [], sentAt: at, at};
	const verdict = decideNext({result, acceptedAt: 0, attempts: 0, sentBefore: false, retry}, 0, Math.random);
	return {recipient, rendered: made, result, verdict, crashes: 0, ...more};
}

async function timelineOf(store: Store, {message_id: messageId}: Claimed) {
	const events = await readEvents(store.reader, messageId, {after: null, limit: 100});
	return events.map(({type, detail: {url, reason}}) => [type, url ?? reason].filter(Boolean).join(' '));
}

const both = {track_opens_at: at, track_clicks_at: at};

storeTest(test, 'complained: records event, state and suppression together with the delivery', async (t, store) => {
	const recipient = await claimed(store, {});
	t.true(await store.writer.submit(write, delivered(recipient, 'complained')));
	t.deepEqual(await timelineOf(store, recipient), ['sent', 'delivered', 'complained simulated']);
	t.like(await recipientRows(store.reader).where({id: recipient.id}).first(), {
		state: 'complained',
		claimed_by: null,
	});
	t.like(await store.reader('suppressions'), {
		length: 1,
		0: {address: 'complained@simulator.test', reason: 'complaint', source: recipient.message_id},
	});
	t.false(await store.writer.submit(write, delivered(recipient, 'complained')), 'nobody holds it any more');
	t.is((await timelineOf(store, recipient)).length, 3);
});

for (const [follows, tracks, tracking, expected] of [
	['opened', both, null, ['sent', 'delivered', 'opened']],
	['opened', {track_clicks_at: at}, null, ['sent', 'delivered']],
	['opened', both, '{"opens":false}', ['sent', 'delivered']],
	['clicked', both, '{"opens":false}', ['sent', 'delivered', 'clicked https://shop.example/']],
	['clicked', {track_opens_at: at}, '{"clicks":true}', ['sent', 'delivered']],
	['clicked', both, '{"clicks":false}', ['sent', 'delivered']],
] as const) {
	const title = `${follows}, tracked ${Object.keys(tracks).join()}, send ${tracking}: ${expected.join(', ')}`;
	storeTest(test, title, async (t, store) => {
		const recipient = await claimed(store, tracks, tracking);
		t.true(await store.writer.submit(write, delivered(recipient, follows)));
		t.deepEqual(await timelineOf(store, recipient), [...expected]);
		t.is((await readEngagement(store.reader, recipient.message_id)).length, expected.length - 2);
		t.is((await recipientRows(store.reader).where({id: recipient.id}).first()).state, 'delivered');
	});
}

sqliteTest(test, 'simulates a click on a placeholder link for a message without tracked links', async (t, store) => {
	const recipient = await claimed(store, both);
	await store.writer.submit(
		write,
		delivered(recipient, 'clicked', {rendered: {subject: 'Hello', firstLink: null, links: 0}}),
	);
	t.deepEqual(await timelineOf(store, recipient), ['sent', 'delivered', 'clicked https://simulator.test/']);
});

sqliteTest(test, 'adds its own simulated event to each delivery of a batch', async (t, store) => {
	const recipients = await Promise.all(Array.from({length: 9}, () => claimed(store, both)));
	const kinds = ['complained', 'opened', 'clicked'] as const;
	await Promise.all(
		recipients.map((recipient, n) =>
			store.writer.submit(write, delivered(recipient, kinds[n % 3] as 'complained')),
		),
	);
	for (const [n, recipient] of recipients.entries()) {
		t.is((await timelineOf(store, recipient))[2]?.split(' ')[0], kinds[n % 3]);
	}
});

storeTest(test, 'records no delivery if its simulated event cannot be written', async (t, store) => {
	const recipient = await claimed(store, both);
	await store.database.schema.renameTable('engagement', 'gone');
	await t.throwsAsync(store.writer.submit(write, delivered(recipient, 'opened')));
	t.deepEqual(await timelineOf(store, recipient), []);
	t.like(await recipientRows(store.reader).where({id: recipient.id}).first(), {state: 'queued', claimed_by: boot});
	await store.database.schema.renameTable('gone', 'engagement');
	t.true(await store.writer.submit(write, delivered(recipient, 'opened')));
	t.deepEqual(await timelineOf(store, recipient), ['sent', 'delivered', 'opened']);
});
