import test from 'ava';
import type {Attempt, AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {countReported} from '../../src/outcome/reputation.ts';
import {decideNext, type JudgedAttempt} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import {findReportedRecipients} from '../../src/store/reports.ts';
import type {Store} from '../../src/store/store.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {waitFor} from '../helpers/wait.ts';

const boot = newId('req');
const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 1e12};
const first = '2026-06-09T10:59:59.000Z';
const later = '2026-06-09T12:00:00.000Z';

const outcomes = {
	delivered: {kind: 'delivered'},
	relayed: {kind: 'relayed'},
	hard: bounced('unknown_user', true),
	soft: bounced('mailbox_full', false),
	blocked: bounced('block', false),
	unauthenticated: bounced('auth', false),
	expired: bounced('expired', false),
	deferred: {kind: 'deferred', category: 'greylist', reason: 'later'},
	errored: {kind: 'errored', reason: 'render_limit'},
	suppressed: {kind: 'suppressed', reason: 'suppressed'},
	released: {kind: 'released'},
} as const satisfies Record<string, Outcome>;
type Name = keyof typeof outcomes;

function bounced(
	category: 'unknown_user' | 'mailbox_full' | 'block' | 'auth' | 'expired',
	suppresses: boolean,
): Outcome {
	return {kind: 'bounced', type: suppresses ? 'permanent' : 'transient', category, reason: 'x', suppresses};
}

function attemptAt(at: string, name: Name): Attempt {
	const code = name === 'delivered' || name === 'relayed' ? 250 : 450;
	return {
		...{at, host: 'mx.a.example', ip: null, tls: null, phase: 'dot', code, enhanced: null, reply: 'x'},
		...{ms: 1, dialogue: null},
	} as const;
}

async function newRecipients(
	store: Store,
	addresses: readonly string[],
): Promise<{ids: string[]; workspaceId: string}> {
	const {workspaceId} = await insertWorkspace(store, newId('ws'));
	await insertMessages(store, workspaceId, addresses);
	return {
		ids: await store.reader('recipients').where({workspace_id: workspaceId}).orderBy('id').pluck('id'),
		workspaceId,
	};
}

/** Ends attempts, like a daemon that has claimed their recipients. */
async function end(store: Store, ids: readonly string[], name: Name, at: string, box = eventWriter): Promise<void> {
	const write = createRecordWrite(boot, box);
	const {workspace_id: workspaceId} = await store.reader('recipients').where({id: ids[0]}).first('workspace_id');
	await changeRecipients(store.database, all => all.whereIn('id', ids), {claimed_by: boot, state: 'queued'});
	const tries: JudgedAttempt[] = [];
	for (const id of ids) {
		const recipient = (await readRecipient(store.reader, workspaceId, id)) as Claimed;
		const outcome = outcomes[name];
		const result: AttemptResult = {recipientId: id, outcome, attempts: [attemptAt(at, name)], sentAt: at, at};
		const tryEnd = {result, acceptedAt: Date.parse(at), attempts: recipient.attempts, sentBefore: false, retry};
		tries.push({
			recipient,
			rendered: null,
			result,
			verdict: decideNext(tryEnd, Date.parse(at), () => 0.5),
			crashes: 0,
		});
	}
	await Promise.all(tries.map(one => store.writer.submit(write, one)));
}

/** `hour: attempted/hard/delivered/complained` of the workspace. */
async function figures(store: Store, workspaceId: string): Promise<string[]> {
	const rows = await store.reader('reputation_hours').where({workspace_id: workspaceId}).orderBy('hour');
	return rows.map(row => `${row.hour}: ${[row.attempted, row.hard, row.delivered, row.complained].join('/')}`);
}

for (const [name, expected] of [
	['delivered', '1/0/1/0'],
	['relayed', '1/0/1/0'],
	['hard', '1/1/0/0'],
	['soft', '1/0/0/0'],
	['deferred', '1/0/0/0'],
	['blocked', null],
	['unauthenticated', null],
	['errored', null],
	['suppressed', null],
	['released', null],
] as const) {
	sqliteTest(test, `counts ${expected ?? 'nothing'} for a first attempt that ends ${name}`, async (t, store) => {
		const {ids, workspaceId} = await newRecipients(store, ['ann@a.example']);
		await end(store, ids, name, first);
		t.deepEqual(await figures(store, workspaceId), expected === null ? [] : [`2026-06-09T10: ${expected}`]);
	});
}

for (const [tries, expected] of [
	[['deferred', 'deferred', 'delivered'], '1/0/1/0'],
	[['deferred', 'hard'], '1/1/0/0'],
	[['deferred', 'expired'], '1/0/0/0'],
	[['deferred', 'blocked'], '0/0/0/0'],
	[['released', 'hard'], '1/1/0/0'],
	[['deferred', 'errored'], '1/0/0/0'],
] as const) {
	sqliteTest(test, `${tries.join(', ')}: counts ${expected} in the hour of the first attempt`, async (t, store) => {
		const {ids, workspaceId} = await newRecipients(store, ['ann@a.example']);
		for (const [n, name] of tries.entries()) {
			await end(store, ids, name, n === 0 && name !== 'released' ? first : later);
		}
		const hour = tries[0] === 'released' ? '12' : '10';
		t.deepEqual(await figures(store, workspaceId), [`2026-06-09T${hour}: ${expected}`]);
	});
}

storeTest(test, 'counts a batch per workspace and hour, and notifies after the commit', async (t, store) => {
	const told: string[] = [];
	const box = {...eventWriter, onCounted: (ids: readonly string[]) => void told.push(...ids)};
	const shop = await newRecipients(store, ['1@a.example', '2@a.example', '3@b.example', '4@simulator.test']);
	const other = await newRecipients(store, ['5@a.example']);
	await end(store, shop.ids, 'delivered', first, box);
	await end(store, other.ids, 'hard', first, box);
	t.deepEqual(await figures(store, shop.workspaceId), ['2026-06-09T10: 3/0/3/0'], 'the simulator counts nowhere');
	t.deepEqual(await figures(store, other.workspaceId), ['2026-06-09T10: 1/1/0/0']);
	await waitFor('both are told', () => told.includes(shop.workspaceId) && told.includes(other.workspaceId));
});

storeTest(
	test,
	'counts reports in the hour of the first attempt, and ignores those of the simulator',
	async (t, store) => {
		const {ids, workspaceId} = await newRecipients(store, [
			'1@a.example',
			'2@a.example',
			'3@a.example',
			'4@simulator.test',
		]);
		await end(store, ids, 'deferred', first);
		await end(store, ids.slice(0, 3), 'delivered', later);
		const weights = ['hard', 'complained', 'server', 'hard'] as const;
		await store.writer.transaction(async trx => {
			const recipients = await findReportedRecipients(trx, {recipientIds: ids});
			const reweighed = recipients.map((recipient, n) => ({
				recipient,
				before: new Set([]),
				after: new Set(weights.slice(n, n + 1)),
			}));
			await countReported(trx, reweighed, eventWriter);
		});
		t.deepEqual(await figures(store, workspaceId), ['2026-06-09T10: 2/1/2/1']);
		await store.writer.transaction(trx => countReported(trx, [], eventWriter));
	},
);

storeTest(test, 'ignores messages whose first attempt was before sending resumed', async (t, store) => {
	const {ids, workspaceId} = await newRecipients(store, ['1@a.example', '2@a.example']);
	const [old = '', held = ''] = ids;
	await end(store, [old], 'deferred', first);
	await store.database('reputation_hours').delete();
	await store.database('workspaces').where({id: workspaceId}).update({reputation_since: '2026-06-09T11:59:59.999Z'});
	await end(store, [old], 'hard', later);
	t.deepEqual(await figures(store, workspaceId), []);
	await end(store, [held], 'hard', later);
	t.deepEqual(await figures(store, workspaceId), ['2026-06-09T12: 1/1/0/0'], 'held mail is judged when it goes out');
});
