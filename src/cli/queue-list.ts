import type {Command} from 'commander';
import {storeTime} from '../mail/time.ts';
import {listQueue, type QueuedCopy} from '../store/queue-list.ts';
import {listSiteSuspensions} from '../store/site-suspensions.ts';
import {listSuspensions} from '../store/suspensions.ts';
import {count} from './options.ts';
import {verb} from './program.ts';
import {type TargetOptions, targetOptions} from './queue-targets.ts';
import {action, type Session} from './session.ts';
import {table} from './table.ts';
import {duration} from './text.ts';

type Options = TargetOptions & {readonly held?: true; readonly suspended?: true; readonly limit: number};

export function listVerb(queue: Command): void {
	targetOptions(
		verb(queue, 'list', 'The copies that wait, next due first', 'mailctl queue list --destination example.com'),
	)
		.option('--held', 'only what an operator holds')
		.option('--suspended', 'only to destinations that are suspended')
		.option('--limit <n>', 'at most so many', count('--limit', 1, 100_000), 100)
		.action(action<Options, []>(list));
}

async function list(session: Session, {destination, olderThan, held, suspended, limit}: Options): Promise<void> {
	const workspace = await session.chosenWorkspace();
	const now = session.tools.clock.now();
	const stopped = await suspendedDestinations(session, storeTime(now));
	const destinations = suspended && [...stopped];
	const filter = {workspaceId: workspace?.id, destination, before: olderThan, held, destinations, limit};
	const rows = await listQueue(await session.reader(), filter);
	session.show(
		rows.map(row => view(row, stopped, now)),
		() =>
			table<QueuedCopy>(
				[
					{title: 'MESSAGE', cell: row => row.message_id},
					{title: 'TO', cell: row => row.address, cut: true},
					{title: 'TRIES', cell: row => row.attempts, right: true},
					{title: 'DUE', cell: row => due(row, stopped, now)},
					{title: 'LAST REPLY', cell: row => row.last_reply, cut: true},
				],
				rows,
				session.terminal.width,
			),
	);
}

async function suspendedDestinations(session: Session, now: string): Promise<Set<string>> {
	const reader = await session.reader();
	const all = [...(await listSuspensions(reader)), ...(await listSiteSuspensions(reader, now))];
	return new Set(all.map(({destination}) => destination));
}

function view(row: QueuedCopy, stopped: ReadonlySet<string>, now: number) {
	const {claimed_by: _, ...rest} = row;
	return {...rest, queue: standing(row, now), suspended: stopped.has(row.destination)};
}

type Standing = 'in_flight' | 'held' | 'ready' | 'deferred';

function standing({claimed_by: claimedBy, held_at: heldAt, next_attempt_at: next}: QueuedCopy, now: number): Standing {
	if (claimedBy !== null) {
		return 'in_flight';
	}
	return heldAt === null ? (next <= storeTime(now) ? 'ready' : 'deferred') : 'held';
}

function due(row: QueuedCopy, stopped: ReadonlySet<string>, now: number): string {
	switch (standing(row, now)) {
		case 'in_flight':
			return 'trying';
		case 'held':
			return 'held';
		case 'ready':
			return stopped.has(row.destination) ? 'suspended' : 'now';
		case 'deferred':
			return `in ${duration(Date.parse(row.next_attempt_at) - now)}`;
	}
}
