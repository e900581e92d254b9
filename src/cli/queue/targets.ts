import type {Command} from 'commander';
import {isId} from '../../mail/ids.ts';
import {findNamed, findWaiting, type QueueFilter} from '../../store/queue/queue-summary.ts';
import {CliError} from '../fault.ts';
import {domain, past} from '../options.ts';
import type {Session} from '../session.ts';

/** What every verb on recipients of the queue takes in addition to ids. */
export type TargetOptions = {readonly destination?: string; readonly olderThan?: number};

/** The copies that a command means. */
export type Targets = {
	readonly recipients: readonly string[];
	/** Those of the named copies that are not in the queue. */
	readonly gone: readonly string[];
	/** How they were chosen, for the audit trail. */
	readonly chosen: Readonly<Record<string, unknown>>;
};

export function targetOptions(command: Command): Command {
	return command
		.option('--destination <domain>', 'all to this domain', domain)
		.option('--older-than <time>', 'all accepted before: a duration before now, or a time', past('--older-than'));
}

/** Of every workspace unless one is named. Throws usage (64) where nothing, or two things, are named, bad data (65) for unknown ids. */
export async function chosenTargets(
	session: Session,
	ids: readonly string[],
	{destination, olderThan}: TargetOptions,
	noneMeansAll = false,
): Promise<Targets> {
	const filtered = destination !== undefined || olderThan !== undefined;
	if (filtered && ids.length > 0) {
		throw new CliError('usage', 'ids and a filter were given', 'name either ids, or --destination and --older-than');
	}
	if (!filtered && ids.length === 0 && !noneMeansAll) {
		throw new CliError('usage', 'no mail was named', 'give ids (rcp_…, msg_…), --destination or --older-than');
	}
	const workspaceId = (await session.chosenWorkspace())?.id;
	if (ids.length > 0) {
		return await namedRecipients(session, ids, workspaceId);
	}
	const filter: QueueFilter = {workspaceId, destination, before: olderThan};
	const recipients = await findWaiting(await session.reader(), filter);
	return {recipients, gone: [], chosen: {destination, before: olderThan && new Date(olderThan).toISOString()}};
}

/** Nothing is done where one of them is unknown. */
async function namedRecipients(
	session: Session,
	texts: readonly string[],
	workspaceId: string | undefined,
): Promise<Targets> {
	const wrong = texts.find(text => !/^(?:rcp|msg)_/.test(text));
	if (wrong !== undefined) {
		throw new CliError('data', `${wrong} is not the id of a message or a copy`, 'see mailctl queue list');
	}
	const ids: string[] = [];
	for (const text of texts) {
		// A whole id is looked for below, with the others.
		const kind = text.startsWith('msg') ? 'msg' : 'rcp';
		ids.push(isId(kind, text) ? text : ((await session.idOf(kind, text)) ?? text));
	}
	const named = await findNamed(await session.reader(), ids, workspaceId);
	const unknown = ids.find(id => !named.some(recipient => recipient.id === id || recipient.message_id === id));
	if (unknown !== undefined) {
		const kind = unknown.startsWith('msg') ? 'message' : 'copy';
		throw new CliError('data', `there is no ${kind} ${unknown}`, 'see mailctl queue list');
	}
	const recipients = new Set(named.filter(({waits}) => waits).map(({id}) => id));
	const gone = new Set(named.filter(({waits}) => !waits).map(({id}) => id));
	return {recipients: [...recipients].sort(), gone: [...gone].sort(), chosen: {}};
}
