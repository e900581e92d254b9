import test, {type ExecutionContext} from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {idFloor} from '../../src/mail/ids.ts';
import {readLines} from '../../src/store/message-scan.ts';
import {findMessage, readWebhookMessages, storeExtras} from '../../src/store/messages.ts';
import {createDays, dropDay, findPast, purgeRelated} from '../../src/store/postgres/days.ts';
import {createClaimWrite} from '../../src/store/queue/claims.ts';
import {lockUnbegun, reschedule} from '../../src/store/queue/open-recipients.ts';
import {endClaims, findReported, writeOutcomes} from '../../src/store/queue/outcomes.ts';
import {readRecipientFacts} from '../../src/store/queue/queue-summary.ts';
import {
	addEngagement,
	findTrackedRecipients,
	readEngagement,
	readRecipients,
	readStatus,
} from '../../src/store/recipients.ts';
import {findReportedRecipients, readEnds} from '../../src/store/reports.ts';
import {readEarlier} from '../../src/store/reputation.ts';
import type {Store} from '../../src/store/store.ts';
import {insertEvents, readEvents} from '../../src/store/timeline.ts';
import {engines, newStore} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring} from '../helpers/plans.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const dayMs = 86_400_000;
const tables = ['messages', 'recipients', 'attempts', 'engagement', 'events', 'attachments', 'message_terms'];
const webhookTables = ['webhook_deliveries', 'webhook_attempts', 'webhook_queue'];
const at = storeTime(Date.now());

// SQLite has no partitions.
const postgresTest = (title: string, work: (t: ExecutionContext, store: Store) => Promise<void>) => {
	for (const engine of engines.filter(one => one === 'postgres')) {
		test(`${title} (${engine})`, async t => await work(t, await newStore(t, engine)));
	}
};

/**
 * How many parts of one table a plan opens at most where it names the table once: two, an hour before and after
 * midnight.
 */
function maxParts(plan: string): number {
	const counts = plan
		.split(/\bAppend\b|\bSubPlan\b/)
		.flatMap(scans =>
			tables.map(table => new Set(scans.match(new RegExp(`\\bon ${table}\\b(?: \\w+)?`, 'g'))).size),
		);
	return Math.max(...counts);
}

/** Inserts the results of the first attempts of deliveries. */
async function insertPosts(store: Store, ids: readonly string[]): Promise<void> {
	for (const id of ids) {
		await store.database('webhook_attempts').insert({delivery_id: id, generation: 0, n: 1, at, status: 500, ms: 1});
	}
}

/** Moves a delivery, as if its event had occurred at another time. */
async function moveDelivery(store: Store, id: string, to: {readonly id: string; readonly message_id?: string}) {
	await store.database('webhook_deliveries').where({id}).update(to);
	for (const table of ['webhook_attempts', 'webhook_queue']) {
		await store.database(table).where({delivery_id: id}).update({delivery_id: to.id});
	}
}

const partOf = async (store: Store, table: string) =>
	(await store.reader(table).first(store.reader.raw('tableoid::regclass::text as part')))?.part;

postgresTest('queries about a message open only the partitions of its day', async (t, store) => {
	const now = Date.now();
	await store.writer.transaction(trx => createDays(trx, now, {from: now - 26 * dayMs, to: now + 3 * dayMs}));
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
	const [id = ''] = ids;
	const boot = newId('req');
	const claim = createClaimWrite({dialect: store.dialect, boot, newId, clock: systemClock});
	const {writer, reader} = store;
	const {transaction} = writer;
	const work: Record<string, (recipients: string[]) => Promise<unknown>> = {
		reschedule: () =>
			transaction(async trx => {
				const unbegun = (await lockUnbegun(trx, id)) ?? [];
				t.is(unbegun.length, 1);
				await reschedule(trx, unbegun, {messageId: id, sendAt: null, now: at});
				await storeExtras(trx, id, null);
			}),
		claim: () =>
			writer.submit(claim, {
				...{
					destination: 'a.test',
					workspaceId,
					limit: 20,
					newestFirst: false,
					lastsMs: 0,
					asksNext: true,
					warmUp: null,
				},
			}),
		outcome: recipients =>
			transaction(async trx => {
				const ended = recipients.map(recipientId => ({
					...{
						recipientId,
						state: 'sent',
						stateAt: at,
						nextAttemptAt: null,
						attempts: 1,
						attemptsBefore: 0,
						sentAt: at,
					},
					...{subject: null, category: null, reply: null, crashes: 0, queued: null, links: null},
				}));
				await findReported(trx, recipients);
				await readEarlier(trx, recipients);
				await endClaims(trx, boot, ended as never);
				await writeOutcomes(trx, ended as never);
				await readWebhookMessages(trx, ids);
			}),
		show: async recipients => {
			await findMessage(reader, workspaceId, id);
			await readRecipients(reader, workspaceId, id);
			await readStatus(reader, id);
			await readLines(reader, ids);
			await readEvents(reader, id, {after: null, limit: 9});
			await readEngagement(reader, id);
			await readRecipientFacts(reader, recipients);
		},
		reports: recipients =>
			transaction(async trx => {
				await findReportedRecipients(trx, {recipientIds: recipients});
				await findReportedRecipients(trx, {messageIds: ids});
				await readEnds(trx, ids);
			}),
		engagement: recipients =>
			transaction(async trx => {
				await findTrackedRecipients(trx, ids);
				await addEngagement(trx, [
					{
						recipientId: recipients[0] ?? '',
						kind: 'opened',
						url: '',
						n: 1,
						machineN: 0,
						firstAt: at,
						lastAt: at,
					},
				]);
			}),
	};
	const recipients: string[] = await reader('recipients').pluck('id');
	for (const [name, run] of Object.entries(work)) {
		const plans = await plansDuring(store, 'postgres', () => run(recipients));
		t.true(plans.length > 0, name);
		for (const plan of plans) {
			t.true(maxParts(plan) <= 2, `${name}: ${plan}`);
		}
	}
	const all = await plansDuring(store, 'postgres', async () => await reader('recipients').where({message_id: id}));
	t.true(maxParts(all[0] ?? '') >= 30, 'this test can fail');
});

postgresTest(
	'drops a day as a whole, with everything about its messages, once none of them is waiting',
	async (t, store) => {
		const [now, {transaction}] = [Date.now(), store.writer];
		await transaction(trx => createDays(trx, now));
		await transaction(trx => createDays(trx, now));
		const {workspaceId} = await insertWorkspace(store);
		const [id = ''] = await insertMessages(store, workspaceId, ['one@a.test']);
		t.regex(await partOf(store, 'messages'), /^messages_\d{8}$/);
		const start = Math.floor(now / dayMs) * dayMs;
		t.is((await findPast(store.reader, start + dayMs)).day, null, 'a copy waits');
		await changeRecipients(store.database, all => all, {state: 'sent', next_attempt_at: null});
		// Another recipient of it was created after midnight.
		const {id: _, ...recipient} = await store.reader('recipients').first();
		const late = idFloor('rcp', start + dayMs + 5);
		await store.database('recipients').insert({...recipient, id: late, role: 'cc'});
		await store
			.database('attempts')
			.insert({recipient_id: late, n: 1, position: 0, at, phase: 'dot', reply: '', ms: 1});
		await transaction(trx =>
			insertEvents(trx, [
				{
					id: newId('evt'),
					messageId: id,
					recipientId: late,
					type: 'sent',
					occurredAt: at,
					recordedAt: at,
					detail: null,
				},
			]),
		);
		await store.database('reports').insert({id: newId('evt'), message_id: id, kind: 'dsn', created_at: at});
		// One of these events came after midnight.
		const endpointId = await insertEndpoint(store, workspaceId);
		const [delivery = '', other = ''] = await insertDue(store, workspaceId, endpointId, 2);
		await insertPosts(store, [delivery, other]);
		await moveDelivery(store, other, {id: idFloor('whd', start + dayMs + 5), message_id: id});
		t.regex(await partOf(store, 'webhook_attempts'), /^webhook_attempts_\d{8}$/);
		t.is((await findPast(store.reader, start + dayMs - 1)).day, null, 'it has not ended');
		t.is((await findPast(store.reader, start + dayMs - 1)).rowsBefore, start, 'and does not go row by row');
		const {day} = await findPast(store.reader, start + dayMs);
		t.is(day?.from, start);
		if (day) {
			t.true(await transaction(trx => purgeRelated(trx, day, 1)));
			t.false(await transaction(trx => purgeRelated(trx, day, 100)));
			await transaction(trx => dropDay(trx, day));
		}
		for (const table of [...tables, ...webhookTables, 'reports']) {
			t.is(await store.reader(table).first(), undefined, table);
		}
		t.is((await findPast(store.reader, start + dayMs)).day, null);
	},
);

postgresTest('claims a recipient with all its data, even after days of waiting', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [id = ''] = await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
	// A clock was set by five hours between the one and the other.
	const earlier = idFloor('msg', Date.now() - dayMs / 5);
	await store.database('messages').where({id}).update({id: earlier});
	await store.database('recipients').where({message_id: id}).update({message_id: earlier});
	for (const days of [0, 2, 40]) {
		const clock = {...systemClock, now: () => Date.now() + days * dayMs};
		const claim = createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock});
		const {recipients} = await store.writer.submit(claim, {
			...{
				destination: 'a.test',
				workspaceId,
				limit: 20,
				newestFirst: false,
				lastsMs: 0,
				asksNext: true,
				warmUp: null,
			},
		});
		t.deepEqual(recipients.map(({address, workspace_name: name}) => [address, name !== undefined]).sort(), [
			['one@a.test', true],
			['two@a.test', true],
		]);
		await store.database('claims').delete();
	}
});

postgresTest(
	'rows without a partition of their day go to the default one, and later rows of that day too',
	async (t, store) => {
		const now = Date.now();
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test']);
		t.is(await partOf(store, 'recipients'), 'recipients_other');
		await store.writer.transaction(trx => createDays(trx, now, {from: now - dayMs, to: now + dayMs}));
		await insertMessages(store, workspaceId, ['two@a.test']);
		const parts = await store.reader('messages').select(store.reader.raw('tableoid::regclass::text as part'));
		t.deepEqual(new Set(parts.map(({part}) => part)), new Set(['messages_other']));
		t.is((await findPast(store.reader, now)).rowsBefore, now, 'its rows go one by one');
	},
);
