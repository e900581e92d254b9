import type {Command} from 'commander';
import {storeTime} from '../mail/time.ts';
import {listQueue, type QueuedCopy, type QueueSummary, summarizeQueue} from '../store/queue-list.ts';
import {count, domain, past} from './options.ts';
import {verb} from './program.ts';
import {action} from './session.ts';
import {table} from './table.ts';
import {duration} from './text.ts';

type ListOptions = {destination?: string; olderThan?: number; limit: number};

export function queueCommands(queue: Command): void {
	verb(queue, 'summary', 'What waits, by destination', 'mailctl queue summary').action(
		action(async session => {
			const workspace = await session.chosenWorkspace();
			const now = session.tools.clock.now();
			const rows = await summarizeQueue(await session.reader(), {now: storeTime(now), workspaceId: workspace?.id});
			session.show(
				rows.map(row => ({...row, suspended: false})),
				() =>
					table<QueueSummary>(
						[
							{title: 'DESTINATION', cell: row => row.destination, cut: true},
							{title: 'READY', cell: row => row.ready, right: true},
							{title: 'DEFERRED', cell: row => row.deferred, right: true},
							{title: 'NOW', cell: row => row.in_flight, right: true},
							{title: 'HELD', cell: row => row.held, right: true},
							{title: 'OLDEST', cell: row => duration(now - Date.parse(row.oldest)), right: true},
							{title: 'LAST REPLY', cell: row => row.last_reply, cut: true},
						],
						rows,
						session.terminal.width,
					),
			);
		}),
	);

	verb(queue, 'list', 'The copies that wait, next due first', 'mailctl queue list --destination example.com')
		.option('--destination <domain>', 'to this domain', domain)
		.option('--older-than <time>', 'accepted before: a duration before now, or a time', past('--older-than'))
		.option('--limit <n>', 'at most so many', count('--limit', 1, 100_000), 100)
		.action(
			action<ListOptions, []>(async (session, {destination, olderThan, limit}) => {
				const workspace = await session.chosenWorkspace();
				const now = session.tools.clock.now();
				const filter = {workspaceId: workspace?.id, destination, before: olderThan, limit};
				const rows = await listQueue(await session.reader(), filter);
				session.show(
					rows.map(row => view(row, now)),
					() =>
						table<QueuedCopy>(
							[
								{title: 'MESSAGE', cell: row => row.message_id},
								{title: 'TO', cell: row => row.address, cut: true},
								{title: 'TRIES', cell: row => row.attempts, right: true},
								{title: 'DUE', cell: row => due(row, now)},
								{title: 'LAST REPLY', cell: row => row.last_reply, cut: true},
							],
							rows,
							session.terminal.width,
						),
				);
			}),
		);
}

function view({claimed_by: claimedBy, held_at: heldAt, ...row}: QueuedCopy, now: number) {
	return {...row, queue: standing({claimed_by: claimedBy, held_at: heldAt, ...row}, now)};
}

function standing({claimed_by: claimedBy, held_at: heldAt, next_attempt_at: next}: QueuedCopy, now: number): string {
	if (claimedBy !== null) {
		return 'in_flight';
	}
	return heldAt === null ? (next <= storeTime(now) ? 'ready' : 'deferred') : 'held';
}

function due(row: QueuedCopy, now: number): string {
	const word = standing(row, now);
	const names: Readonly<Record<string, string>> = {in_flight: 'trying', held: 'held', ready: 'now'};
	return names[word] ?? `in ${duration(Date.parse(row.next_attempt_at) - now)}`;
}
