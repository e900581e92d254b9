import {CliError} from '../../cli/fault.ts';
import {addFieldOptions} from '../../cli/field-options.ts';
import {domain, past} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {readDaemons, type Session} from '../../cli/session.ts';
import {grouped, printable, shortTime} from '../../cli/terminal-text.ts';
import {isId} from '../../mail/ids.ts';
import {findNamed, findWaiting, type QueueFilter} from '../../store/queue/queue-summary.ts';
import {listFields} from '../fields.ts';
import {
	changeQueue,
	drop,
	fail,
	flush,
	hold,
	type QueueChange,
	type QueueDetail,
	release,
	resumeDestination,
	suspendDestination,
} from './queue.ts';

const reasonField = listFields(suspendDestination.input).filter(({name}) => name === 'reason');

/** The filters that every verb on queued recipients accepts instead of ids. */
export type TargetOptions = {
	readonly destination?: string;
	readonly olderThan?: number;
	/** Why they are changed, for the audit trail. */
	readonly reason?: string;
};

/** The recipients that a command names. */
type Targets = {
	readonly recipients: readonly string[];
	/** Named recipients that are not in the queue. */
	readonly notQueued: readonly string[];
	/** How they were selected, and why. */
	readonly selection: QueueDetail;
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
	{destination, olderThan, reason}: TargetOptions,
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
		return {...(await namedRecipients(session, ids, workspaceId)), selection: {reason}};
	}
	const filter: QueueFilter = {workspaceId, destination, before: olderThan};
	const recipients = await findWaiting(await session.reader(), filter);
	const before = olderThan === undefined ? undefined : new Date(olderThan).toISOString();
	return {recipients, notQueued: [], selection: {destination, before, reason}};
}

/** Finds recipients by ids. Throws if one is unknown, so that a command changes all of them or none. */
async function namedRecipients(
	session: Session,
	texts: readonly string[],
	workspaceId: string | undefined,
): Promise<Omit<Targets, 'selection'>> {
	const invalid = texts.find(text => !/^(?:rcp|msg)_/.test(text));
	if (invalid !== undefined) {
		throw new CliError('data', `${invalid} is not the id of a message or a recipient`, 'see mailctl queue list');
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
		throw new CliError('data', `${kind} ${unknown} not found`, 'see mailctl queue list');
	}
	const recipients = new Set(named.filter(({isQueued}) => isQueued).map(({id}) => id));
	const notQueued = new Set(named.filter(({isQueued}) => !isQueued).map(({id}) => id));
	return {recipients: [...recipients].sort(), notQueued: [...notQueued].sort()};
}

/** The verbs that change recipients of the queue. */
export function changeVerbs(queue: CliCommand): void {
	changeVerb(queue, hold, 'Hold messages in the queue until they are released', '--destination example.com');
	changeVerb(queue, release, 'Release held messages; each is attempted when it is due', 'msg_06f…');
	changeVerb(queue, flush, 'Attempt waiting messages now; all without a filter', '--older-than 4h');
	changeVerb(queue, drop, 'Remove messages from the queue as errored, without webhook events', 'rcp_06f… --yes');
	changeVerb(queue, fail, 'Bounce messages now, as if they had expired; webhooks are notified', '--older-than 2d');
}

type Options = TargetOptions & {readonly yes?: boolean};

function changeVerb(queue: CliCommand, change: QueueChange, about: string, sample: string): void {
	const {verb, takesReason} = change;
	const command = targetOptions(queue.verb(`${verb} [id...]`, about).sample(`mailctl queue ${verb} ${sample}`));
	if (change === drop) {
		command.yesOption();
	}
	addFieldOptions(command, takesReason ? reasonField : []);
	command.does<Options, [readonly string[]]>(async (session, options, ids) => {
		const targets = await chosenTargets(session, ids, options, change === flush);
		const recipients = countRecipients(targets.recipients.length);
		if (change === drop && targets.recipients.length > 0) {
			await session.confirm(`Drop ${recipients}? They become errored and are never sent.`, options.yes);
		}
		await runChange(session, change, targets);
	});
}

/**
 * Changes the recipients in batches, beside a running daemon or without one, and shows the result. Throws temporary
 * (75) if some are still being attempted.
 */
async function runChange(
	session: Session,
	change: QueueChange,
	{recipients, notQueued, selection}: Targets,
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
	const {changed, busy} = await changeQueue(options, change, recipients, selection);
	progress.end();
	const unchanged = recipients.length - changed - busy.length;
	session.show({[change.done]: changed, unchanged, in_flight: busy.length, not_queued: notQueued.length}, () =>
		recipients.length + notQueued.length === 0
			? ['nothing in the queue matches']
			: [
					...(changed > 0 ? [changedText(change, countRecipients(changed))] : []),
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

const changedText = ({done}: QueueChange, recipients: string): string =>
	done === 'flushed' ? `${recipients} due now` : `${done} ${recipients}`;

function countRecipients(count: number): string {
	return count === 1 ? '1 recipient' : `${grouped(count)} recipients`;
}

/** The verbs that stop and resume all mail to a domain. */
export function suspendVerbs(queue: CliCommand): void {
	addFieldOptions(
		queue
			.verb('suspend <domain>', 'Stop sending to a domain until it is resumed; new messages wait')
			.sample("mailctl queue suspend example.com --reason 'their disk is full until Monday'"),
		reasonField,
	).does<{reason?: string}, [string]>(async (session, reason, text) => {
		const destination = domain(text);
		const suspension = await session.performIn(null, suspendDestination, {domain: destination, ...reason});
		session.show({...suspension, suspended: true}, () => [
			`sending to ${destination} is suspended from ${shortTime(suspension.created_at)} UTC: ${printable(suspension.reason)}`,
		]);
	});

	queue
		.verb('resume <domain>', 'Resume sending to a domain that an operator or failures stopped')
		.sample('mailctl queue resume example.com')
		.does<object, [string]>(async (session, _options, text) => {
			const destination = domain(text);
			const resumed = await session.performIn(null, resumeDestination, {domain: destination});
			const {suspension, sites, isResumed} = resumed;
			session.show({destination, suspended: false, resumed: isResumed, sites}, () =>
				isResumed
					? [
							...(suspension ? [`sending to ${destination} resumed`] : []),
							...sites.map(
								site =>
									`one message now tests the provider ${printable(site)}, which was backing off after failures`,
							),
						]
					: [`${destination} was not suspended`],
			);
		});
}
