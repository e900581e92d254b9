import {CliError} from '../../cli/fault.ts';
import {domain, label, past} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {readDaemons, type Session} from '../../cli/session.ts';
import {grouped, printable, shortTime} from '../../cli/terminal-text.ts';
import {isId} from '../../mail/ids.ts';
import {findNamed, findWaiting, type QueueFilter} from '../../store/queue/queue-summary.ts';
import {
	changeQueue,
	drop,
	fail,
	flush,
	hold,
	type QueueChange,
	release,
	resumeDestination,
	suspendDestination,
} from './queue.ts';

/** The filters that every verb on queued recipients accepts instead of ids. */
export type TargetOptions = {readonly destination?: string; readonly olderThan?: number};

/** The recipients that a command names. */
type Targets = {
	readonly recipients: readonly string[];
	/** Named recipients that are not in the queue. */
	readonly notQueued: readonly string[];
	/** How they were chosen, for the audit trail. */
	readonly chosen: Readonly<Record<string, unknown>>;
};

export function targetOptions(command: CliCommand): CliCommand {
	return command
		.option('--destination <domain>', 'all messages to this domain', domain)
		.option(
			'--older-than <time>',
			'all messages accepted before: a duration before now, or a time',
			past('--older-than'),
		);
}

/**
 * Finds the recipients that a command names, in all workspaces or in the one of `--workspace`. Throws usage (64) if
 * nothing is named, or both ids and filters, and bad data (65) for unknown ids.
 */
export async function chosenTargets(
	session: Session,
	ids: readonly string[],
	{destination, olderThan}: TargetOptions,
	shouldDefaultToAll = false,
): Promise<Targets> {
	const hasFilter = destination !== undefined || olderThan !== undefined;
	if (hasFilter && ids.length > 0) {
		throw new CliError('usage', 'ids and filters cannot be combined', 'use ids, or --destination and --older-than');
	}
	if (!hasFilter && ids.length === 0 && !shouldDefaultToAll) {
		throw new CliError(
			'usage',
			'no messages were selected',
			'give ids (rcp_…, msg_…), --destination or --older-than',
		);
	}
	const workspaceId = (await session.chosenWorkspace())?.id;
	if (ids.length > 0) {
		return await namedRecipients(session, ids, workspaceId);
	}
	const filter: QueueFilter = {workspaceId, destination, before: olderThan};
	const recipients = await findWaiting(await session.reader(), filter);
	return {recipients, notQueued: [], chosen: {destination, before: olderThan && new Date(olderThan).toISOString()}};
}

/** Finds recipients by ids. Throws if one is unknown, so that a command changes all of them or none. */
async function namedRecipients(
	session: Session,
	texts: readonly string[],
	workspaceId: string | undefined,
): Promise<Targets> {
	const wrong = texts.find(text => !/^(?:rcp|msg)_/.test(text));
	if (wrong !== undefined) {
		throw new CliError('data', `${wrong} is not the id of a message or a recipient`, 'see mailctl queue list');
	}
	const ids: string[] = [];
	for (const text of texts) {
		// Complete ids are looked up below, all at once.
		const kind = text.startsWith('msg') ? 'msg' : 'rcp';
		ids.push(isId(kind, text) ? text : ((await session.idOf(kind, text)) ?? text));
	}
	const named = await findNamed(await session.reader(), ids, workspaceId);
	const unknown = ids.find(id => !named.some(recipient => recipient.id === id || recipient.message_id === id));
	if (unknown !== undefined) {
		const kind = unknown.startsWith('msg') ? 'message' : 'recipient';
		throw new CliError('data', `there is no ${kind} ${unknown}`, 'see mailctl queue list');
	}
	const recipients = new Set(named.filter(({isQueued}) => isQueued).map(({id}) => id));
	const notQueued = new Set(named.filter(({isQueued}) => !isQueued).map(({id}) => id));
	return {recipients: [...recipients].sort(), notQueued: [...notQueued].sort(), chosen: {}};
}

type Options = TargetOptions & {readonly reason?: string; readonly yes?: boolean};

/** Formats the result for people: `held 3 recipients`. */
const saysOf =
	({done}: QueueChange) =>
	(recipients: string) =>
		done === 'flushed' ? `${recipients} due now` : `${done} ${recipients}`;

type Ids = [readonly string[]];

/** The verbs that change recipients of the queue. */
export function changeVerbs(queue: CliCommand): void {
	reasonOption(
		targetVerb(queue, 'hold', 'Hold messages in the queue until they are released', '--destination example.com'),
	).does<Options, Ids>(async (session, options, ids) => await change(session, hold, ids, options));

	targetVerb(queue, 'release', 'Release held messages; each is attempted when it is due', 'msg_06f…').does<
		Options,
		Ids
	>(async (session, options, ids) => await change(session, release, ids, options));

	targetVerb(queue, 'flush', 'Attempt waiting messages now; all without a filter', '--older-than 4h').does<
		Options,
		Ids
	>(async (session, options, ids) => {
		await runChange(session, flush, await chosenTargets(session, ids, options, true));
	});

	targetVerb(queue, 'drop', 'Remove messages from the queue as errored, without webhook events', 'rcp_06f… --yes')
		.yesOption()
		.does<Options, Ids>(async (session, options, ids) => {
			const targets = await chosenTargets(session, ids, options);
			const recipients = countRecipients(targets.recipients.length);
			if (targets.recipients.length > 0) {
				await session.confirm(`Drop ${recipients}? They become errored and are never sent.`, options.yes);
			}
			await runChange(session, drop, targets);
		});

	reasonOption(
		targetVerb(
			queue,
			'fail',
			'Bounce messages now, as if they had expired; webhooks are notified',
			'--older-than 2d',
		),
	).does<Options, Ids>(async (session, options, ids) => await change(session, fail(options.reason), ids, options));
}

async function change(session: Session, change: QueueChange, ids: readonly string[], options: Options): Promise<void> {
	const {reason} = options;
	await runChange(session, change, await chosenTargets(session, ids, options), reason === undefined ? {} : {reason});
}

function targetVerb(queue: CliCommand, name: string, about: string, sample: string): CliCommand {
	return targetOptions(queue.verb(`${name} [id...]`, about).sample(`mailctl queue ${name} ${sample}`));
}

function reasonOption(command: CliCommand): CliCommand {
	return command.option('--reason <text>', 'the reason, stored and shown by queue why', label('--reason'));
}

/**
 * Changes the recipients in batches, beside a running daemon or without one, and shows the result. Throws temporary
 * (75) if some are still being attempted.
 */
async function runChange(
	session: Session,
	change: QueueChange,
	{recipients, notQueued, chosen}: Targets,
	detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
	const {newId} = session.tools;
	const progress = session.progress('recipients');
	const options = {
		transaction: session.write,
		tools: session.tools,
		// A running daemon finds by itself what is due.
		eventWriter: {newId, onDue: () => undefined},
		readSilentSince: async () => (await readDaemons(session)).silentSince,
		onStep: (done: number, of: number) => progress.show(done, done / of),
	};
	const {changed, busy} = await changeQueue(options, change, recipients, {...chosen, ...detail});
	progress.end();
	const unchanged = recipients.length - changed - busy.length;
	session.show({[change.done]: changed, unchanged, in_flight: busy.length, not_queued: notQueued.length}, () =>
		recipients.length + notQueued.length === 0
			? ['nothing in the queue matches']
			: [
					...(changed > 0 ? [saysOf(change)(countRecipients(changed))] : []),
					...(unchanged > 0 ? [`${countRecipients(unchanged)} unchanged: nothing to do`] : []),
					...(notQueued.length > 0 ? [`${countRecipients(notQueued.length)} no longer in the queue`] : []),
					...(busy.length > 0 && change.skipsInFlight
						? [`${countRecipients(busy.length)} being attempted right now`]
						: []),
				],
	);
	if (busy.length > 0 && !change.skipsInFlight) {
		throw new CliError(
			'temporary',
			`${countRecipients(busy.length)} being attempted right now`,
			'run it again in a moment',
		);
	}
}

function countRecipients(count: number): string {
	return count === 1 ? '1 recipient' : `${grouped(count)} recipients`;
}

/** The verbs that stop and resume all mail to a domain. */
export function suspendVerbs(queue: CliCommand): void {
	queue
		.verb('suspend <domain>', 'Stop sending to a domain until it is resumed; new messages wait')
		.sample("mailctl queue suspend example.com --reason 'their disk is full until Monday'")
		.option('--reason <text>', 'the reason, shown by queue summary and queue why', label('--reason'))
		.does<{reason?: string}, [string]>(async (session, {reason}, text) => {
			const destination = domain(text);
			const suspension = await session.write(trx =>
				suspendDestination(trx, session.tools, {destination, reason}),
			);
			session.show({...suspension, suspended: true}, () => [
				`sending to ${destination} is suspended from ${shortTime(suspension.created_at)} UTC: ${printable(suspension.reason)}`,
			]);
		});

	queue
		.verb('resume <domain>', 'Resume sending to a domain that an operator or failures stopped')
		.sample('mailctl queue resume example.com')
		.does<object, [string]>(async (session, _options, text) => {
			const destination = domain(text);
			const {suspension, sites} = await session.write(trx => resumeDestination(trx, session.tools, destination));
			const isResumed = suspension !== undefined || sites.length > 0;
			session.show({destination, suspended: false, resumed: isResumed, sites}, () =>
				isResumed
					? [
							...(suspension ? [`mail to ${destination} is sent again`] : []),
							...sites.map(
								site =>
									`one message now tests the provider ${printable(site)}, which was backing off after failures`,
							),
						]
					: [`${destination} was not suspended`],
			);
		});
}
