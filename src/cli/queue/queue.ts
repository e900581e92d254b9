import type {Command} from 'commander';
import {free, type QueueStatus, readQueueStatus, readStopped, type Stopped} from '../../admin/queue-status.ts';
import {type Why, whyWaiting} from '../../admin/why.ts';
import {readWhyContext} from '../../admin/why-context.ts';
import {storeTime} from '../../kit/time.ts';
import {ownRetryOf} from '../../pace/choose-route.ts';
import {listQueue, type QueuedRecipient, readRecipientFacts} from '../../store/queue/queue-summary.ts';
import {readDaemons} from '../open-store.ts';
import {count} from '../options.ts';
import {verb} from '../program.ts';
import {action, type Session} from '../session.ts';
import {duration, grouped, type Noun, printable, shortTime, table, wrapped} from '../text.ts';
import {watch, watchOption} from '../watch.ts';
import {changeVerbs, suspendVerbs} from './change.ts';
import {destinationsNow, openResolver} from './route-now.ts';
import {chosenTargets, type TargetOptions, targetOptions} from './targets.ts';
import {traceVerb} from './trace.ts';

export function queueCommands(queue: Command): void {
	summaryVerb(queue);
	listVerb(queue);
	whyVerb(queue);
	traceVerb(queue);
	changeVerbs(queue);
	suspendVerbs(queue);
}

export function summaryVerb(queue: Command): void {
	watchOption(
		verb(queue, 'summary', 'What waits, by destination, the most first', 'mailctl queue summary --watch'),
	).action(
		action<{readonly watch?: true}, []>(async (session, options) => {
			if (options.watch) {
				await watch(session, async () => {
					const {rows, now} = await summary(session);
					return [`${shortTime(storeTime(now))} UTC`, '', ...lines(session, rows, now)];
				});
			} else {
				const {rows, now} = await summary(session);
				session.show(rows, () => lines(session, rows, now));
			}
		}),
	);
}

async function summary(session: Session): Promise<{readonly rows: readonly QueueStatus[]; readonly now: number}> {
	const workspaceId = (await session.chosenWorkspace())?.id;
	const now = session.tools.clock.now();
	return {
		rows: await readQueueStatus(await session.reader(), {now, workspaceId, idle: workspaceId === undefined}),
		now,
	};
}

const nothing = 'no mail waits';

function lines({terminal}: Session, rows: readonly QueueStatus[], now: number): string[] {
	if (rows.length === 0) {
		return [nothing];
	}
	const sum = (of: (row: QueueStatus) => number) => rows.reduce((all, row) => all + of(row), 0);
	const shown = rows.map(row => ({...row, age: row.oldest === null ? null : now - Date.parse(row.oldest)}));
	const total = {
		...free,
		destination: `${grouped(rows.length)} destinations`,
		ready: sum(row => row.ready),
		deferred: sum(row => row.deferred),
		in_flight: sum(row => row.in_flight),
		held: sum(row => row.held),
		age: Math.max(...shown.map(({age}) => age ?? 0)),
		last_reply: '',
	};
	return table<Omit<QueueStatus, 'oldest' | 'suspended'> & {readonly age: number | null}>(
		[
			{title: 'DESTINATION', cell: row => row.destination, cut: true},
			{title: 'READY', cell: row => row.ready, right: true},
			{title: 'DEFERRED', cell: row => row.deferred, right: true},
			{title: 'NOW', cell: row => row.in_flight, right: true},
			{title: 'HELD', cell: row => row.held, right: true},
			{title: 'OLDEST', cell: row => (row.age === null ? null : duration(row.age)), right: true},
			{title: 'LAST REPLY', cell: row => stopText(row, now) ?? row.last_reply, cut: true},
		],
		rows.length > 1 ? [...shown, total] : shown,
		terminal.width,
	);
}

function stopText({suspended_by: by, suspended_until: until, suspension_reason: reason}: Stopped, now: number) {
	if (by === null) {
		return null;
	}
	const time = until === null ? '' : ` for ${duration(Date.parse(until) - now)}`;
	return `suspended${time}: ${reason ?? by}`;
}

type Options = TargetOptions & {readonly held?: true; readonly suspended?: true; readonly limit: number};

export function listVerb(queue: Command): void {
	targetOptions(
		verb(queue, 'list', 'The copies that wait, next due first', 'mailctl queue list --destination example.com'),
	)
		.option('--held', 'only what an operator holds')
		.option('--suspended', 'only to destinations that are suspended')
		.option('--limit <n>', 'at most this many', count('--limit', 1, 100_000), 100)
		.action(action<Options, []>(list));
}

async function list(session: Session, {destination, olderThan, held, suspended, limit}: Options): Promise<void> {
	const workspace = await session.chosenWorkspace();
	const now = session.tools.clock.now();
	const stopped = new Set((await readStopped(await session.reader(), storeTime(now))).keys());
	const destinations = suspended && [...stopped];
	const filter = {workspaceId: workspace?.id, destination, before: olderThan, held, destinations, limit};
	const rows = await listQueue(await session.reader(), filter);
	session.list(queuedAt(now, stopped), rows);
}

/** Copies as they are at a time, where mail to some destinations is stopped. */
const queuedAt = (now: number, stopped: ReadonlySet<string>): Noun<QueuedRecipient> => ({
	none: 'nothing of this kind is in the queue',
	json(row) {
		const {claimed_by: _, ...rest} = row;
		return {...rest, queue: status(row, now), suspended: stopped.has(row.destination)};
	},
	fields: [
		{title: 'TO', cell: row => row.address, cut: true},
		{title: 'LAST REPLY', cell: row => row.last_reply, cut: true},
		{title: 'DUE', cell: row => due(row, stopped, now)},
		{title: 'TRIES', cell: row => row.attempts, right: true},
		{title: 'MESSAGE', cell: row => row.message_id, id: true},
	],
});

type RowStatus = 'in_flight' | 'held' | 'ready' | 'deferred';

function status(
	{claimed_by: claimedBy, held_at: heldAt, next_attempt_at: next}: QueuedRecipient,
	now: number,
): RowStatus {
	if (claimedBy !== null) {
		return 'in_flight';
	}
	return heldAt === null ? (next <= storeTime(now) ? 'ready' : 'deferred') : 'held';
}

function due(row: QueuedRecipient, stopped: ReadonlySet<string>, now: number): string {
	switch (status(row, now)) {
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

type WhyOptions = TargetOptions & {readonly limit: number};

export function whyVerb(queue: Command): void {
	targetOptions(
		verb(
			queue,
			'why [id...]',
			'What mail waits for, until when, and what would change it',
			'mailctl queue why msg_06f…',
		),
	)
		.option('--limit <n>', 'at most this many copies', count('--limit', 1, 10_000), 100)
		.action(action<WhyOptions, [readonly string[]]>(why));
}

async function why(session: Session, options: WhyOptions, ids: readonly string[]): Promise<void> {
	const targets = await chosenTargets(session, ids, options);
	const all = [...targets.recipients, ...targets.gone];
	const [reader, daemons] = [await session.reader(), await readDaemons(session)];
	const facts = await readRecipientFacts(reader, all.slice(0, options.limit));
	const now = session.tools.clock.now();
	const settings = session.settings();
	const {delivery} = settings;
	const [destinations, resolver] = [destinationsNow(session), openResolver(session)];
	const context = await readWhyContext(reader, facts, {
		...{now, daemons, settings},
		ownRetryOf: destination => ownRetryOf(destination, delivery, destinations, resolver),
	});
	const answers = facts.map(recipient => whyWaiting(recipient, context));
	const left = all.length - answers.length;
	session.show(answers, () => [
		...answers.flatMap((answer, index) => [...(index > 0 ? [''] : []), ...described(session, answer, now)]),
		...(answers.length === 0 ? ['nothing in the queue matches'] : []),
		...(left > 0 ? ['', `and ${grouped(left)} more: raise --limit to see them`] : []),
	]);
}

function described({terminal}: Session, answer: Why, now: number): string[] {
	const lines = (text: string, indent: string) => wrapped(printable(text), terminal.width, indent);
	const reason = ({detail, until, mend}: Pick<Why, 'detail' | 'until' | 'mend'>) => [
		...lines(
			until === null || until < storeTime(now) ? detail : `${detail} (in ${duration(Date.parse(until) - now)})`,
			'  ',
		),
		...(mend === null ? [] : lines(`→ ${mend}`, '    ')),
	];
	return [
		terminal.bold(`${printable(answer.address)}  ${answer.id}`),
		...reason(answer),
		...answer.also.flatMap(each => reason({...each, detail: `Besides: ${each.detail}`})),
		...(answer.gives_up_at === null
			? []
			: lines(`Its time in the queue ends at ${shortTime(answer.gives_up_at)} UTC.`, '  ')),
	];
}
