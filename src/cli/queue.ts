import {setTimeout as sleep} from 'node:timers/promises';
import {free, type QueueStatus, readQueueStatus, readStopped, type Stopped} from '../admin/queue.ts';
import {readReasons, type Why} from '../admin/why.ts';
import {storeTime} from '../kit/time.ts';
import type {Priority} from '../mail/message.ts';
import {queueKeyText} from '../mail/route.ts';
import {ownRetryOf} from '../pace/choose-route.ts';
import {listQueue, type RecipientFacts, readRecipientFacts} from '../store/queue/queue-summary.ts';
import {readAttempts, type StoredAttempt} from '../store/recipients.ts';
import {listWorkspaces} from '../store/workspaces.ts';
import {attemptLines} from './attempt-lines.ts';
import {CliError} from './fault.ts';
import {count} from './options.ts';
import type {CliCommand} from './program.ts';
import {changeVerbs, chosenTargets, suspendVerbs, type TargetOptions, targetOptions} from './queue-change.ts';
import {
	destinationsNow,
	openResolver,
	openRouter,
	type QueuedFor,
	type RouteNow,
	routeLines,
	routeNow,
} from './route-now.ts';
import {readDaemons, type Session} from './session.ts';
import {duration, grouped, type Noun, nextTry, printable, shortTime, table, wrapped} from './terminal-text.ts';
import {watch, watchOption} from './watch.ts';

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
		queue.verb('summary', 'What waits, by destination, the most first').sample('mailctl queue summary --watch'),
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
	const waits = (priority: Priority) => (row: Pick<QueueStatus, 'by_priority'>) => row.by_priority[priority];
	const shown = rows.map(row => ({...row, age: row.oldest === null ? null : now - Date.parse(row.oldest)}));
	const total = {
		...free,
		destination: `${grouped(rows.length)} destinations`,
		ready: sum(row => row.ready),
		deferred: sum(row => row.deferred),
		in_flight: sum(row => row.in_flight),
		held: sum(row => row.held),
		by_priority: {high: sum(waits('high')), normal: 0, low: sum(waits('low'))},
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
			...(['high', 'low'] as const)
				.filter(priority => total.by_priority[priority] > 0)
				.map(priority => ({title: priority.toUpperCase(), cell: waits(priority), right: true as const})),
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

export function listVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('list', 'The recipients that wait, next due first')
			.sample('mailctl queue list --destination example.com'),
	)
		.option('--held', 'only what an operator holds')
		.option('--suspended', 'only to destinations that are suspended')
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

/** Copies as they are at a time, where mail to some destinations is stopped. */
type Waiting = Awaited<ReturnType<typeof listQueue>>[number];

const queuedAt = (now: number, stopped: ReadonlySet<string>): Noun<Waiting> => ({
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

function status({claimed_by: claimedBy, held_at: heldAt, next_attempt_at: next}: Waiting, now: number): RowStatus {
	if (claimedBy !== null) {
		return 'in_flight';
	}
	return heldAt === null ? (next <= storeTime(now) ? 'ready' : 'deferred') : 'held';
}

function due(row: Waiting, stopped: ReadonlySet<string>, now: number): string {
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

export function whyVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('why [id...]', 'What mail waits for, until when, and what would change it')
			.sample('mailctl queue why msg_06f…'),
	)
		.option('--limit <n>', 'at most this many recipients', count('--limit', 1, 10_000), 100)
		.does<WhyOptions, [readonly string[]]>(why);
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
	const answers = await readReasons(reader, facts, {
		...{now, daemons, settings},
		ownRetryOf: destination => ownRetryOf(destination, delivery, destinations, resolver),
	});
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
		`${terminal.bold(`${printable(answer.address)}  ${answer.id}`)}${ofPriority(answer.priority)}`,
		...reason(answer),
		...answer.also.flatMap(each => reason({...each, detail: `Besides: ${each.detail}`})),
		...(answer.gives_up_at === null
			? []
			: lines(`Its time in the queue ends at ${shortTime(answer.gives_up_at)} UTC.`, '  ')),
	];
}

type TraceOptions = TargetOptions & {readonly follow?: true; readonly limit: number};
type Traced = {readonly recipient: RecipientFacts; readonly attempts: readonly StoredAttempt[]};

const pollMs = 500;
/** Assumed for a destination without mail. */
const mostWorkspaces = 10;

export function traceVerb(queue: CliCommand): void {
	targetOptions(
		queue
			.verb('trace [id...]', 'Where mail would go now, and every try so far with what was said')
			.sample('mailctl queue trace rcp_06f… --follow'),
	)
		.option('--follow', 'go on with new attempts as they end, until no recipient is in the queue')
		.option('--limit <n>', 'at most this many recipients', count('--limit', 1, 1000), 20)
		.does<TraceOptions, [readonly string[]]>(trace);
}

async function trace(session: Session, options: TraceOptions, ids: readonly string[]): Promise<void> {
	if (options.follow && session.json) {
		throw new CliError('usage', '--follow prints as it goes', 'leave out --json');
	}
	const targets = await chosenTargets(session, ids, options);
	const all = [...targets.recipients, ...targets.gone];
	const chosen = all.slice(0, options.limit);
	const recipients = await readRecipientFacts(await session.reader(), chosen);
	const routes = await routesNow(session, recipients, options.destination);
	const traced = await withAttempts(session, recipients);
	session.show({routes: routes.map(routeView), copies: traced.map(view)}, () => [
		...routes.flatMap(route => routeText(session, route, routes)),
		...traced.flatMap(each => ['', ...recipientLines(session, each)]),
		...(all.length > chosen.length ? ['', `and ${grouped(all.length - chosen.length)} more: raise --limit`] : []),
	]);
	if (options.follow) {
		await follow(session, chosen, traced);
	}
}

/** The routes of the recipients' destination queues; without recipients those of every workspace, or of the chosen one, for the destination. */
async function routesNow(
	session: Session,
	recipients: readonly RecipientFacts[],
	destination: string | undefined,
): Promise<RouteNow[]> {
	const queues = new Map<string, QueuedFor>();
	for (const {id: recipientId, destination, workspace_id: workspaceId} of recipients) {
		const queue = queueKeyText({destination, workspaceId});
		queues.set(queue, queues.get(queue) ?? {destination, workspaceId, recipientId});
	}
	if (queues.size === 0 && destination !== undefined) {
		const chosen = await session.chosenWorkspace();
		const workspaces = chosen ? [chosen] : await listWorkspaces(await session.reader());
		for (const {id: workspaceId} of workspaces.slice(0, mostWorkspaces)) {
			queues.set(workspaceId, {destination, workspaceId, recipientId: destination});
		}
	}
	const [router, resolver] = [await openRouter(session, {policies: true}), openResolver(session)];
	return await Promise.all([...queues.values()].map(recipient => routeNow(session, router, resolver, recipient)));
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

/** Until every recipient has left the queue. A try is recorded together with its outcome. */
async function follow(session: Session, ids: readonly string[], before: readonly Traced[]): Promise<void> {
	const {terminal} = session;
	const shown = new Map(before.map(({recipient, attempts}) => [recipient.id, attempts.length]));
	let waiting = before.filter(({recipient}) => recipient.next_attempt_at !== null).map(({recipient}) => recipient.id);
	while (waiting.length > 0) {
		await sleep(pollMs);
		const recipients = await readRecipientFacts(await session.reader(), waiting);
		for (const {recipient, attempts} of await withAttempts(session, recipients)) {
			const fresh = attempts.slice(shown.get(recipient.id) ?? 0);
			if (fresh.length > 0 || recipient.next_attempt_at === null) {
				shown.set(recipient.id, attempts.length);
				terminal.print(['', ...recipientLines(session, {recipient, attempts: fresh})]);
			}
		}
		waiting = recipients.filter(recipient => recipient.next_attempt_at !== null).map(({id}) => id);
	}
	if (ids.length > 1) {
		terminal.print(['', 'none of them is in the queue any more']);
	}
}

function routeText({terminal}: Session, route: RouteNow, all: readonly RouteNow[]): string[] {
	const {destination, workspaceId} = route;
	const alone = all.every(other => other === route || other.destination !== destination);
	return [
		terminal.bold(`${printable(destination)} now${alone ? '' : `, of ${workspaceId}`}`),
		...routeLines(route, terminal.width),
	];
}

function routeView({workspaceId, warmUp, pace, suspension, to, ...route}: RouteNow) {
	const {connections, startConnections, mailsPerSession, perMinute} = pace;
	return {
		...route,
		workspace_id: workspaceId,
		...to,
		pace: {
			connections,
			start_connections: startConnections,
			mails_per_session: mailsPerSession,
			per_minute: perMinute,
		},
		suspended_until: suspension?.until ?? null,
		suspension_reason: suspension?.reason ?? null,
		warm_up: warmUp && {source: warmUp.source, group: warmUp.group, per_day: warmUp.perDay},
	};
}

function recipientLines({terminal, tools}: Session, {recipient, attempts}: Traced): string[] {
	const {id, address, state, state_at: at, next_attempt_at: next, priority, claimed_by: claim} = recipient;
	const queued = (due: string) => (claim === null ? nextTry(due, tools.clock.now()) : 'being tried now');
	const status =
		next === null ? `${state} at ${shortTime(at)} UTC` : `${state}, ${queued(next)}${ofPriority(priority)}`;
	return [
		terminal.bold(`${printable(address)}  ${id}`),
		`  ${status}`,
		...attempts.flatMap(attempt => attemptLines(attempt, terminal.width)),
	];
}

/** Said only where it is not normal. */
const ofPriority = (priority: Priority | null = null): string =>
	priority === null || priority === 'normal' ? '' : `, priority ${priority}`;

function view({recipient, attempts}: Traced) {
	const {id, message_id, workspace_id, address, destination, state, state_at, next_attempt_at, priority} = recipient;
	return {
		id,
		message_id,
		workspace_id,
		address,
		destination,
		state,
		state_at,
		next_attempt_at,
		...(priority !== null && priority !== 'normal' && {priority}),
		attempts: attempts.map(({recipient_id: _, ...attempt}) => attempt),
	};
}
