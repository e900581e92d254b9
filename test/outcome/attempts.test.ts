import test from 'ava';
import type {Attempt, AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import {readContactedServers, readRecipients} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';

const minute = 60_000;
const accepted = Date.UTC(2026, 5, 9, 10, 0, 0);
const boot = newId('req');
const recordWrite = createRecordWrite(boot, eventWriter);
const retry = {schedule: {waits: [minute], repeatLast: true}, lifetime: 60 * minute};

const lost: Attempt = {
	at: new Date(accepted).toISOString(),
	host: 'mx.test',
	ip: '192.0.2.1',
	tls: null,
	phase: 'dot',
	code: null,
	enhanced: null,
	reply: 'possible duplicate, no reply to the data: the server closed the connection',
	ms: 12,
	dialogue: '     1 S: 220 mx.test\n    12 *: the server closed the connection',
};
const taken: Attempt = {...lost, code: 250, reply: 'ok', dialogue: null};

async function newRecipient(store: Store): Promise<Claimed> {
	const {workspaceId} = await insertWorkspace(store, newId('ws'));
	await insertMessages(store, workspaceId, ['ada@a.test'], {due: accepted});
	const {id} = await recipientRows(store.reader).where({workspace_id: workspaceId}).first();
	return await claimed(store, workspaceId, id);
}

async function claimed(store: Store, workspaceId: string, id: string): Promise<Claimed> {
	await changeRecipients(store.database, all => all.where({id}), {claimed_by: boot});
	return (await readRecipient(store.reader, workspaceId, id)) as Claimed;
}

/** Records the end of an attempt this many minutes after acceptance, as the scheduler does. */
async function record(store: Store, recipient: Claimed, outcome: Outcome, attempts: Attempt[], after: number) {
	const now = accepted + after * minute;
	const result: AttemptResult = {
		recipientId: recipient.id,
		outcome,
		attempts,
		sentAt: null,
		at: new Date(now).toISOString(),
	};
	const end = {
		result,
		acceptedAt: accepted,
		attempts: recipient.attempts,
		sentBefore: recipient.sent_at !== null,
		retry,
	};
	const verdict = decideNext(end, now, Math.random);
	await store.writer.submit(recordWrite, {recipient, rendered: null, result, verdict, crashes: 0});
	return await claimed(store, recipient.workspace_id, recipient.id);
}

const lastDetail = async (store: Store, {message_id: messageId}: Claimed) =>
	(await readEvents(store.reader, messageId, {after: null, limit: 9})).at(-1)?.detail;
const doubtful: Outcome = {kind: 'deferred', category: 'network', reason: lost.reply, waitMs: 5 * minute};

storeTest(
	test,
	'marks a later outcome as a possible duplicate after a connection lost past the final dot',
	async (t, store) => {
		const recipient = await newRecipient(store);
		const again = await record(store, recipient, doubtful, [lost], 1);
		t.is(again.state_at, new Date(accepted + minute).toISOString());
		await record(store, again, {kind: 'delivered'}, [taken], 6);
		t.like(await lastDetail(store, recipient), {possible_duplicate: true, attempt: 2});

		const other = await newRecipient(store);
		const deferred = {...taken, phase: 'rcpt', code: 450, reply: 'later'} as const;
		const outcome: Outcome = {kind: 'deferred', category: 'greylist', reason: '450 later'};
		await record(store, await record(store, other, outcome, [deferred], 1), {kind: 'delivered'}, [taken], 2);
		t.false('possible_duplicate' in ((await lastDetail(store, other)) ?? {}));
	},
);

storeTest(test, 'lists the last fifty mail servers tried for a recipient, in order', async (t, store) => {
	let recipient = await newRecipient(store);
	t.deepEqual(await readContactedServers(store.reader, recipient.id), []);
	const askedAt = (n: number) =>
		Array.from({length: 5}, (_, position) => ({
			...{host: `mx${position}.test`, ip: `192.0.2.${n}`, phase: 'rcpt' as const, code: 451},
		}));
	for (let n = 1; n <= 12; n++) {
		const attempts = askedAt(n).map(one => ({...lost, ...one}));
		recipient = await record(
			store,
			recipient,
			{kind: 'deferred', category: 'greylist', reason: '451 later'},
			attempts,
			n,
		);
	}
	const tries = Array.from({length: 10}, (_, n) => n + 3);
	t.deepEqual(
		await readContactedServers(store.reader, recipient.id),
		tries.flatMap(n => askedAt(n).map(one => ({n, ...one}))),
	);
});

storeTest(test, 'stores the SMTP dialogue with each attempt', async (t, store) => {
	const recipient = await newRecipient(store);
	await record(store, recipient, doubtful, [{...lost, phase: 'rcpt', code: 450}, lost], 1);
	const [read] = await readRecipients(store.reader, recipient.workspace_id, recipient.message_id);
	t.deepEqual(
		read?.attempts.map(({n, dialogue}) => [n, dialogue]),
		[
			[1, lost.dialogue],
			[1, lost.dialogue],
		],
	);
});

storeTest(
	test,
	'bounces as transient with 4.4.7 when the lifetime is over, without a suppression',
	async (t, store) => {
		const recipient = await newRecipient(store);
		const again = await record(store, recipient, doubtful, [lost], 58);
		const row = () => recipientRows(store.reader).where({id: recipient.id}).first();
		t.is((await row()).next_attempt_at, new Date(accepted + 59 * minute).toISOString(), 'the last try');
		await record(store, again, doubtful, [lost], 59);
		t.like(await row(), {state: 'bounced', next_attempt_at: null});
		t.like(await lastDetail(store, recipient), {
			type: 'transient',
			category: 'expired',
			enhanced: '4.4.7',
			possible_duplicate: true,
		});
		t.deepEqual(await store.reader('suppressions').where({workspace_id: recipient.workspace_id}), []);
	},
);
