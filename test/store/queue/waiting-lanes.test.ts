import test from 'ava';
import fc from 'fast-check';
import {levelOf, priorities} from '../../../src/mail/message.ts';
import type {QueueKey} from '../../../src/mail/route.ts';
import {readDue, readWaitingQueues} from '../../../src/store/queue/open-recipients.ts';
import {storeTest} from '../../helpers/databases.ts';
import {plansDuring} from '../../helpers/plans.ts';

/** The properties of a recipient that decide whether its queue has work. */
const recipients = fc.array(
	fc.record({
		destination: fc.constantFrom('a.test', 'b.test', 'b.test.c', 'ä.test'),
		workspace: fc.constantFrom('ws_going', 'ws_paused', 'ws_other'),
		priority: fc.constantFrom(...priorities),
		hour: fc.nat(9),
		held: fc.boolean(),
		claimed: fc.boolean(),
	}),
	{maxLength: 20},
);

const keyOf = (workspace: string, {destination, priority}: Pick<QueueKey, 'destination' | 'priority'>) =>
	`${workspace} ${destination} ${priority}`;

storeTest(test, 'finds the same queues with work as a scan of all recipients', async (t, {database, reader}) => {
	for (const id of ['ws_going', 'ws_paused', 'ws_other']) {
		await database('workspaces').insert({id, name: id, created_at: '', paused_at: id === 'ws_paused' ? 'x' : null});
	}
	await fc.assert(
		fc.asyncProperty(recipients, fc.nat(9), async (waiting, now) => {
			await database('queue').delete();
			await database('claims').delete();
			for (const [index, {destination, workspace, priority, hour, held, claimed}] of waiting.entries()) {
				const id = {recipient_id: `rcp_${index}`};
				const queue = {destination, workspace_id: workspace, priority: levelOf(priority)};
				await database('queue').insert({
					...id,
					...queue,
					next_attempt_at: `${hour}`,
					held_at: held ? 'x' : null,
				});
				await (claimed && database('claims').insert({...id, claimed_by: 'x', attempts: 0, until: 'x'}));
			}
			const going = waiting
				.filter(({workspace, held}) => workspace !== 'ws_paused' && !held)
				.map(one => ({...one, queue: keyOf(one.workspace, one)}));
			const first = new Map<string, number>();
			for (const {queue, hour} of going) {
				first.set(queue, Math.min(hour, first.get(queue) ?? hour));
			}
			const queues = await readWaitingQueues(reader);
			t.deepEqual(queues.map(one => [keyOf(one.workspaceId, one), Number(one.due)]).sort(), [...first].sort());
			const due = new Map<string, number>();
			for (const {queue, hour} of going.filter(({hour, claimed}) => hour <= now && !claimed)) {
				due.set(queue, Math.min(hour, due.get(queue) ?? hour));
			}
			t.deepEqual(
				(await readDue(reader, `${now}`)).map(one => [keyOf(one.workspaceId, one), Number(one.due)]).sort(),
				[...due].sort(),
			);
		}),
		{numRuns: 60},
	);
});

storeTest(
	test,
	'finds the next queue without reading the waiting recipients of the previous one',
	async (t, store, engine) => {
		const plans = await plansDuring(store, engine, async () => {
			await readWaitingQueues(store.reader);
			await readDue(store.reader, '9');
		});
		t.is(plans.length, 2);
		for (const plan of plans) {
			const jump = /queue_due.*\(destination, ?workspace_id, ?priority, ?next_attempt_at\)\s?> ?(?:ROW)?\(/s;
			t.regex(plan, jump);
			t.notRegex(
				plan,
				engine === 'sqlite' ? /B-TREE FOR ORDER|SCAN l\b.*SEARCH p/s : /Sort Key|Seq Scan on queue|Hash Join/,
			);
		}
	},
);
