import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import type {WaitReason} from '../../../src/mail/wait-reason.ts';
import {createQueueWaitWrite, type QueueWaitRow} from '../../../src/store/queue/open-recipients.ts';
import {readRecipientFacts} from '../../../src/store/queue/queue-summary.ts';
import {readPaceFigures} from '../../../src/store/queue/sites.ts';
import {storeTest} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../../helpers/messages.ts';
import {reasonOf} from '../../helpers/wait-reasons.ts';

const start = Date.UTC(2026, 5, 9);

storeTest(
	test,
	'each node writes and removes its own wait reasons of a queue, and the newest is reported',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test']);
		const {id} = await store.reader('recipients').first();
		const queue = {destination: 'a.test', workspaceId};
		const rowOf = (reason: WaitReason, seconds: number): QueueWaitRow => ({
			...queue,
			site: `mx.${reason.code}`,
			reason,
			until: null,
			at: storeTime(start + seconds * 1000),
		});
		const [one, two] = [createQueueWaitWrite('req_1'), createQueueWaitWrite('req_2')];
		const told = async () => {
			const facts = await readRecipientFacts(store.reader, [id]);
			const {queues} = await readPaceFigures(store.reader, storeTime(start));
			t.deepEqual(
				queues,
				facts.flatMap(({queue_reason: reason}) => (reason ? [{waitsFor: reason.code, n: 1}] : [])),
				'the figures say the same',
			);
			return facts.map(each => each.queue_reason);
		};

		await store.writer.submit(one, {ended: [], rows: [rowOf(reasonOf.pace, 1)]});
		await store.writer.submit(two, {ended: [], rows: [rowOf(reasonOf.turn, 2)]});
		t.deepEqual(await told(), [reasonOf.turn]);
		await store.writer.submit(one, {ended: [], rows: [rowOf(reasonOf.suspension, 3)]});
		t.deepEqual(await told(), [reasonOf.suspension]);
		await store.writer.submit(two, {ended: [], rows: [rowOf(reasonOf.rate, 3)]});
		t.deepEqual(await told(), [reasonOf.rate], 'of the same moment there is one too');
		await store.writer.submit(two, {ended: [queue], rows: []});
		t.deepEqual(await told(), [reasonOf.suspension]);
		await store.writer.submit(one, {ended: [queue], rows: []});
		t.deepEqual(await told(), [null]);
		t.deepEqual(await store.reader('lane_waits'), []);
	},
);
