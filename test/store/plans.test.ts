import test from 'ava';
import type {Knex} from 'knex';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {readAddressees, recordContacts} from '../../src/resources/topics/store.ts';
import {
	bringForward,
	recipientClaims,
	releaseOthers,
	releaseOwn,
	releaseUnknownClaims,
	waitingRecipients,
} from '../../src/store/held-claims.ts';
import {createClaimWrite} from '../../src/store/queue/claims.ts';
import {readDue, readWaitingQueues} from '../../src/store/queue/open-recipients.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring} from '../helpers/plans.ts';

/** The plans that scan the whole recipients table. */
const greedy = (plans: readonly string[]) =>
	plans.filter(plan => /SCAN (?:recipients|[qr])$|Seq Scan on recipients|SCAN .* recipients_pkey/m.test(plan));

storeTest(test, 'a claim reads only the recipients it returns', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@b.test']);
	const claim = createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock: systemClock});
	const queues = ['a.test', 'b.test'].map(destination => ({destination, workspaceId}));
	const plans = await plansDuring(store, engine, async () => {
		for (const newestFirst of [false, true]) {
			const more = {limit: 20, newestFirst, lastsMs: 0, asksNext: true, warmUp: null};
			await Promise.all(queues.map(queue => store.writer.submit(claim, {...queue, ...more})));
		}
	});
	t.deepEqual(greedy(plans), []);
	const reads = plans.filter(
		plan => /^(?:select|insert into claims|with claimed)/.test(plan) && plan.includes('queue_due'),
	);
	t.is(reads.length, 6, plans.join('\n\n'));
	for (const plan of reads) {
		// All of the key: the backlogs of other workspaces for the same destination are not read.
		t.regex(
			plan,
			engine === 'sqlite'
				? / INDEX queue_due \(destination=\? AND workspace_id=\? AND priority=\? AND next_attempt_at[<>]\?\)/
				: /Index Cond: \(.*destination.*workspace_id.*priority.*next_attempt_at/,
		);
		// The ids that were found may be sorted to remove duplicates, but not the due recipients.
		t.notRegex(plan, /Sort Key: [^\n]*next_attempt_at|TEMP B-TREE FOR ORDER/);
	}
});

storeTest(test, 'the scheduler’s start, new messages and releases read an index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@b.test']);
	const [now, boot] = [storeTime(Date.now()), newId('req')];
	const {transaction} = store.writer;
	const plans = await plansDuring(store, engine, async () => {
		await readWaitingQueues(store.reader);
		await readDue(store.reader, now);
		await transaction(trx => releaseOthers(trx, recipientClaims, boot, now));
		await transaction(trx => releaseOwn(trx, recipientClaims, boot, now));
		await transaction(trx => releaseUnknownClaims(trx, boot, ['rcp_1'], now));
		await transaction(trx => bringForward(waitingRecipients(trx, now), now, now));
	});
	t.is(plans.length, 7);
	t.deepEqual(greedy(plans), []);
	for (const [index, name] of [
		/queue_due/,
		/queue_due/,
		/claims/,
		/claims/,
		/claims/,
		/claims/,
		/queue_due|queue_pkey/,
	].entries()) {
		t.regex(plans[index] ?? '', name);
	}
});

storeTest(test, 'looks up the addresses of a batch among contacts in an index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const addresses = Array.from({length: 8000}, (_, n) => `user${n}@a.test`);
	const lessons = addresses.map(address => ({
		...{id: () => newId('con'), workspaceId, address, addressKey: address, known: undefined},
		...{locale: null, timezone: null, shouldUpdate: true},
	}));
	await store.writer.transaction(trx => recordContacts(trx, lessons, storeTime(Date.now())));
	const plan = await store.writer.transaction(async trx => {
		const asked: Array<{sql: string; bindings: Knex.RawBinding[]}> = [];
		trx.once('query', query => asked.push(query));
		const found = await readAddressees(
			trx,
			addresses.slice(0, 64).map(address => [workspaceId, address]),
		);
		t.is(found.size, 64);
		const explain = engine === 'sqlite' ? 'explain query plan' : 'explain';
		const sql = asked[0]?.sql.replaceAll(/\$\d+/g, '?');
		return JSON.stringify(await trx.raw(`${explain} ${sql}`, asked[0]?.bindings ?? []));
	});
	t.regex(plan, /contacts_by_address/);
	t.notRegex(plan, /Seq Scan on contacts|SCAN c\b/);
});
