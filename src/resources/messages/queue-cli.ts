import {setTimeout as sleep} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {count} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {openResolver, readDaemons, type Session} from '../../cli/session.ts';
import {duration, grouped, type Noun, printable, shortTime, table, wrapped} from '../../cli/terminal-text.ts';
import {watch, watchOption} from '../../cli/watch.ts';
import {checkDestinations, loadDestinations} from '../../config/destinations-file.ts';
import {groupBy} from '../../kit/collections.ts';
import {storeTime} from '../../kit/time.ts';
import type {Priority} from '../../mail/message.ts';
import {type Destinations, ownRetryOf} from '../../queue/pace/choose-route.ts';
import {listQueue, type RecipientFacts, readRecipientFacts} from '../../store/queue/queue-summary.ts';
import {readAttempts, type StoredAttempt} from '../../store/recipients.ts';
import {attemptLines} from './attempt-lines-cli.ts';
import {notStopped, type QueueStatus, readQueueStatus, readStopped, type Stopped} from './queue.ts';
import {changeVerbs, chosenTargets, suspendVerbs, type TargetOptions, targetOptions} from './queue-change-cli.ts';
import {readReasons, type Why} from './why.ts';

export function queueCommands(queue: CliCommand): void {
	summaryVerb(queue);
	listVerb(queue);
	whyVerb(queue);
	traceVerb(queue);
	changeVerbs(queue);
	suspendVerbs(queue);
}

export function summaryVerb(queue: CliCommand): void {
	watchOption(
		queue
			.verb('summary', 'Count waiting messages by destination, most first')
			.sample('mailctl queue summary --watch'),
	).does<{readonly watch?: true}>(async (session, options) => {
		if (options.watch) {
			await watch(session, async () => {
				const {rows, now} = await summary(session);
				return [`${shortTime(storeTime(now))} UTC`, '', ...lines(session, rows, now)];
			});
		} else {
			const {rows, now} = await summary(session);
			session.show(rows, () => lines(session, rows, now));
		}
	});
}

async function summary(session: Session): Promise<{readonly rows: readonly QueueStatus[]; readonly now: number}> {
	const workspaceId = (await session.chosenWorkspace())?.id;
	const now = session.tools.clock.now();
	return {
		rows: await readQueueStatus(await session.reader(), {
			now,
			workspaceId,
			includesIdle: workspaceId === undefined,
		}),
		now,
	};
}

const nothing = 'no messages are waiting';

function lines({terminal}: Session, rows: readonly QueueStatus[], now: number): string[] {
	if (rows.length === 0) {
		return [nothing];
	}
	const sum = (figure: (row: QueueStatus) => number) => rows.reduce((total, row) => total + figure(row), 0);
	const ofPriority = (priority: Priority) => (row: Pick<QueueStatus, 'by_priority'>) => row.by_priority[priority];
	const rowsWithAge = rows.map(row => ({...row, age: row.oldest === null ? null : now - Date.parse(row.oldest)}));
	const total = {
		...notStopped,
		destination: `${grouped(rows.length)} destinations`,
		ready: sum(row => row.ready),
		deferred: sum(row => row.deferred),
		in_flight: sum(row => row.in_flight),
		held: sum(row => row.held),
		by_priority: {high: sum(ofPriority('high')), normal: 0, low: sum(ofPriority('low'))},
		age: Math.max(...rowsWithAge.map(({age}) => age ?? 0)),
		last_reply: '',
	};
	const tableLines = table<Omit<QueueStatus, 'oldest' | 'suspended'> & {readonly age: number | null}>(
		[
			{title: 'DESTINATION', cell: row => row.destination, cut: true},
			{title: 'READY', cell: row => row.ready, right: true},
			{title: 'DEFERRED', cell: row => row.deferred, right: true},
			{title: 'NOW', cell: row => row.in_flight, right: true},
			{title: 'HELD', cell: row => row.held, right: true},
			...(['high', 'low'] as const)
				.filter(priority => total.by_priority[priority] > 0)
				.map(priority => ({title: priority.toUpperCase(), cell: ofPriority(priority), right: true as const})),
			{title: 'OLDEST', cell: row => (row.age === null ? null : duration(row.age)), right: true},
			{title: 'LAST REPLY', cell: row => stopText(row, now) ?? row.last_reply, cut: true},
		],
		rows.length > 1 ? [...rowsWithAge, total] : rowsWithAge,
		terminal.width,
	);
	return [...tableLines, ...adviceLines(rows, terminal.width)];
}

/** Formats the advice for blocked addresses, once for all destinations that share it. */
function adviceLines(rows: readonly QueueStatus[], width: number): string[] {
	const withAdvice = rows.filter(({suspension_advice: advice}) => advice !== null);
	return [...groupBy(withAdvice, row => row.suspension_advice)].flatMap(([advice, blocked]) => {
		const names = blocked.slice(0, 5).map(({destination}) => destination);
		const more = blocked.length > names.length ? ` and ${blocked.length - names.length} more` : '';
		return ['', ...wrapped(`${names.join(', ')}${more}: our address is blocked. What to do: ${advice}.`, width)];
	});
}

function stopText({suspended_by: by, suspended_until: until, suspension_reason: reason}: Stopped, now: number) {
	if (by === null) {
		return null;
	}
	const time = until === null ? '' : ` for ${duration(Date.parse(until) - now)}`;
	return `suspended${time}: ${reason ?? by}`;
}

type Options = TargetOptions & {readonly held?: true; readonly suspended?: true; readonly limit: number};

export function listVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('list', 'List waiting recipients, next attempt first')
			.sample('mailctl queue list --destination example.com'),
	)
		.option('--held', 'only recipients held by an operator')
		.option('--suspended', 'only recipients of suspended destinations')
		.option('--limit <n>', 'at most this many', count('--limit', 1, 100_000), 100)
		.does<Options>(list);
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

type Waiting = Awaited<ReturnType<typeof listQueue>>[number];

/** The noun for waiting recipients, with their state at a time and the destinations that are stopped. */
const queuedAt = (now: number, stopped: ReadonlySet<string>): Noun<Waiting> => ({
	none: 'no matching recipients in the queue',
	json(row) {
		const {claimed_by: _, ...rest} = row;
		return {...rest, queue: status(row, now), suspended: stopped.has(row.destination)};
	},
	fields: [
		{title: 'TO', cell: row => row.address, cut: true},
		{title: 'LAST REPLY', cell: row => row.last_reply, cut: true},
		{title: 'DUE', cell: row => due(row, stopped, now)},
		{title: 'ATTEMPTS', cell: row => row.attempts, right: true},
		{title: 'MESSAGE', cell: row => row.message_id, id: true},
	],
});

type RowStatus = 'in_flight' | 'held' | 'ready' | 'deferred';

function status({claimed_by: claimedBy, held_at: heldAt, next_attempt_at: next}: Waiting, now: number): RowStatus {
	if (claimedBy !== null) {
		return 'in_flight';
	}
	return heldAt === null ? (next <= storeTime(now) ? 'ready' : 'deferred') : 'held';
}

function due(row: Waiting, stopped: ReadonlySet<string>, now: number): string {
	switch (status(row, now)) {
		case 'in_flight':
			return 'sending';
		case 'held':
			return 'held';
		case 'ready':
			return stopped.has(row.destination) ? 'suspended' : 'now';
		case 'deferred':
			return `in ${duration(Date.parse(row.next_attempt_at) - now)}`;
	}
}

type WhyOptions = TargetOptions & {readonly limit: number};

export function whyVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('why [id...]', 'Explain what messages are waiting for, until when, and what you can do')
			.sample('mailctl queue why msg_06f…'),
	)
		.option('--limit <n>', 'at most this many recipients', count('--limit', 1, 10_000), 100)
		.does<WhyOptions, [readonly string[]]>(why);
}

async function why(session: Session, options: WhyOptions, ids: readonly string[]): Promise<void> {
	const targets = await chosenTargets(session, ids, options);
	const all = [...targets.recipients, ...targets.notQueued];
	const recipients = await readRecipientFacts(await session.reader(), all.slice(0, options.limit));
	const reasons = await findReasons(session, recipients);
	const now = session.tools.clock.now();
	const remaining = all.length - reasons.length;
	session.show(reasons, () => [
		...reasons.flatMap((entry, index) => [...(index > 0 ? [''] : []), ...reasonLines(session, entry, now)]),
		...(reasons.length === 0 ? [nothingMatches] : []),
		...(remaining > 0 ? ['', `and ${grouped(remaining)} more: raise --limit to see them`] : []),
	]);
}

const nothingMatches = 'nothing in the queue matches';

async function findReasons(session: Session, recipients: readonly RecipientFacts[]): Promise<Why[]> {
	const settings = session.settings();
	const [destinations, resolver] = [readDestinations(session), openResolver(session)];
	return await readReasons(await session.reader(), recipients, {
		now: session.tools.clock.now(),
		daemons: await readDaemons(session),
		settings,
		ownRetryOf: destination => ownRetryOf(destination, settings.delivery, destinations, resolver),
	});
}

/** If the file is invalid, the daemon keeps the one it read before. A command warns and uses the shipped file. */
function readDestinations(session: Session): Destinations {
	const settings = session.settings();
	const read = checkDestinations(settings);
	if (read.ok) {
		return read.destinations;
	}
	for (const problem of read.problems) {
		session.terminal.warn(`mailctl: ${problem}`);
	}
	return loadDestinations({...settings, destinationsFile: null});
}

function reasonLines({terminal}: Session, entry: Why, now: number): string[] {
	const lines = (text: string, indent: string) => wrapped(printable(text), terminal.width, indent);
	const format = ({detail, until, mend}: Pick<Why, 'detail' | 'until' | 'mend'>) => [
		...lines(
			until === null || until < storeTime(now) ? detail : `${detail} (in ${duration(Date.parse(until) - now)})`,
			'  ',
		),
		...(mend === null ? [] : lines(`→ ${mend}`, '    ')),
	];
	return [
		`${terminal.bold(`${printable(entry.address)}  ${entry.id}`)}${prioritySuffix(entry.priority)}`,
		...format(entry),
		...entry.also.flatMap(reason => format({...reason, detail: `Also: ${reason.detail}`})),
		...(entry.gives_up_at === null ? [] : lines(`It expires at ${shortTime(entry.gives_up_at)} UTC.`, '  ')),
	];
}

type TraceOptions = TargetOptions & {readonly follow?: true; readonly limit: number};
type Traced = {readonly recipient: RecipientFacts; readonly attempts: readonly StoredAttempt[]};

const pollMs = 500;

export function traceVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('trace [id...]', 'Explain what messages are waiting for, with every attempt and reply')
			.sample('mailctl queue trace rcp_06f… --follow'),
	)
		.option('--follow', 'print new attempts as they finish, until no recipient is in the queue')
		.option('--limit <n>', 'at most this many recipients', count('--limit', 1, 1000), 20)
		.does<TraceOptions, [readonly string[]]>(trace);
}

async function trace(session: Session, options: TraceOptions, ids: readonly string[]): Promise<void> {
	if (options.follow && session.json) {
		throw new CliError('usage', '--follow cannot be combined with --json', 'leave out --json');
	}
	const targets = await chosenTargets(session, ids, options);
	const all = [...targets.recipients, ...targets.notQueued];
	const chosen = all.slice(0, options.limit);
	const recipients = await readRecipientFacts(await session.reader(), chosen);
	const traced = await withAttempts(session, recipients);
	const reasons = await findReasons(session, recipients);
	const recipientViews = traced.map(({recipient: {state_at, site}, attempts}, index) => ({
		...reasons[index],
		state_at,
		// Empty while its mail servers are being looked up.
		site: site || null,
		attempts: attempts.map(({recipient_id: _, ...attempt}) => attempt),
	}));
	session.show({copies: recipientViews}, () => [
		...traceLines(session, traced, reasons),
		...(recipientViews.length === 0 ? [nothingMatches] : []),
		...(all.length > chosen.length ? ['', `and ${grouped(all.length - chosen.length)} more: raise --limit`] : []),
	]);
	if (options.follow) {
		await follow(session, chosen, traced);
	}
}

async function withAttempts(session: Session, recipients: readonly RecipientFacts[]): Promise<Traced[]> {
	const attempts = await readAttempts(
		await session.reader(),
		recipients.map(({id}) => id),
	);
	return recipients.map(recipient => ({
		recipient,
		attempts: attempts.filter(attempt => attempt.recipient_id === recipient.id),
	}));
}

function traceLines(session: Session, traced: readonly Traced[], reasons: readonly Why[]): string[] {
	const now = session.tools.clock.now();
	return traced.flatMap(({attempts}, index) => [
		...(index > 0 ? [''] : []),
		...reasonLines(session, reasons[index] as Why, now),
		...attempts.flatMap(attempt => attemptLines(attempt, session.terminal.width)),
	]);
}

/** Prints new attempts until every recipient has left the queue. An attempt is recorded together with its outcome. */
async function follow(session: Session, ids: readonly string[], before: readonly Traced[]): Promise<void> {
	const {terminal} = session;
	const printedCounts = new Map(before.map(({recipient, attempts}) => [recipient.id, attempts.length]));
	let waiting = before.filter(({recipient}) => recipient.next_attempt_at !== null).map(({recipient}) => recipient.id);
	while (waiting.length > 0) {
		await sleep(pollMs);
		const recipients = await readRecipientFacts(await session.reader(), waiting);
		const changed: Traced[] = [];
		for (const {recipient, attempts} of await withAttempts(session, recipients)) {
			const newAttempts = attempts.slice(printedCounts.get(recipient.id) ?? 0);
			if (newAttempts.length > 0 || recipient.next_attempt_at === null) {
				printedCounts.set(recipient.id, attempts.length);
				changed.push({recipient, attempts: newAttempts});
			}
		}
		if (changed.length > 0) {
			const reasons = await findReasons(
				session,
				changed.map(({recipient}) => recipient),
			);
			terminal.print(['', ...traceLines(session, changed, reasons)]);
		}
		waiting = recipients.filter(recipient => recipient.next_attempt_at !== null).map(({id}) => id);
	}
	if (ids.length > 1) {
		terminal.print(['', 'none of them is in the queue anymore']);
	}
}

/** Formats the priority; empty if it is normal. */
const prioritySuffix = (priority: Priority | null = null): string =>
	priority === null || priority === 'normal' ? '' : `, priority ${priority}`;
