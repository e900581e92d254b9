import {setTimeout as sleep} from 'node:timers/promises';
import type {Command} from 'commander';
import {queueKeyText} from '../../mail/route.ts';
import {type RecipientFacts, readRecipientFacts} from '../../store/queue/queue-summary.ts';
import {readAttempts, type StoredAttempt} from '../../store/recipients.ts';
import {listWorkspaces} from '../../store/workspaces.ts';
import {CliError} from '../fault.ts';
import {attemptLines} from '../message-text.ts';
import {count} from '../options.ts';
import {verb} from '../program.ts';
import {action, type Session} from '../session.ts';
import {grouped, nextTry, printable, shortTime} from '../text.ts';
import {openResolver, openRouter, type QueuedFor, type RouteNow, routeLines, routeNow} from './route-now.ts';
import {chosenTargets, type TargetOptions, targetOptions} from './targets.ts';

type Options = TargetOptions & {readonly follow?: true; readonly limit: number};
type Traced = {readonly recipient: RecipientFacts; readonly attempts: readonly StoredAttempt[]};

const pollMs = 500;
/** Assumed for a destination without mail. */
const mostWorkspaces = 10;

export function traceVerb(queue: Command): void {
	targetOptions(
		verb(
			queue,
			'trace [id...]',
			'Where mail would go now, and every try so far with what was said',
			'mailctl queue trace rcp_06f… --follow',
		),
	)
		.option('--follow', 'go on with new tries as they end, until no copy is in the queue')
		.option('--limit <n>', 'at most this many copies', count('--limit', 1, 1000), 20)
		.action(action<Options, [readonly string[]]>(trace));
}

async function trace(session: Session, options: Options, ids: readonly string[]): Promise<void> {
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
		...routes.flatMap(route => described(session, route, routes)),
		...traced.flatMap(each => ['', ...recipientLines(session, each)]),
		...(all.length > chosen.length ? ['', `and ${grouped(all.length - chosen.length)} more: raise --limit`] : []),
	]);
	if (options.follow) {
		await follow(session, chosen, traced);
	}
}

/** The ways of the copies' lanes; without copies those of every workspace, or of the chosen one, for the destination. */
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

function described({terminal}: Session, route: RouteNow, all: readonly RouteNow[]): string[] {
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
	const {id, address, state, state_at: at, next_attempt_at: next, claimed_by: claim} = recipient;
	const queued = (due: string) => (claim === null ? nextTry(due, tools.clock.now()) : 'being tried now');
	const status = next === null ? `${state} at ${shortTime(at)} UTC` : `${state}, ${queued(next)}`;
	return [
		terminal.bold(`${printable(address)}  ${id}`),
		`  ${status}`,
		...attempts.flatMap(attempt => attemptLines(attempt, terminal.width)),
	];
}

function view({recipient, attempts}: Traced) {
	const {id, message_id, workspace_id, address, destination, state, state_at, next_attempt_at} = recipient;
	return {
		id,
		message_id,
		workspace_id,
		address,
		destination,
		state,
		state_at,
		next_attempt_at,
		attempts: attempts.map(({recipient_id: _, ...attempt}) => attempt),
	};
}
