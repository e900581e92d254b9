import {setTimeout as sleep} from 'node:timers/promises';
import type {Command} from 'commander';
import type {Knex} from 'knex';
import {auditQueue} from '../../admin/queue-audit.ts';
import {resumeDestination, suspendDestination} from '../../admin/suspensions.ts';
import {storeTime} from '../../mail/time.ts';
import type {Outbox} from '../../outcome/outbox.ts';
import {type GivenUp, giveUp} from '../../outcome/settle.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {
	type ChangedCopy,
	findClaimed,
	holdCopies,
	makeDue,
	releaseHeld,
	type Step,
} from '../../store/queue/queue-change.ts';
import {listWorkspaces} from '../../store/workspaces.ts';
import {CliError} from '../fault.ts';
import {readDaemons} from '../open-store.ts';
import {domain, label} from '../options.ts';
import {verb, yesOption} from '../program.ts';
import {action, type Session} from '../session.ts';
import {createProgress} from '../terminal.ts';
import {grouped, printable, shortTime} from '../text.ts';
import {openWays} from './route-now.ts';
import {chosenTargets, type TargetOptions, type Targets, targetOptions} from './targets.ts';

type Options = TargetOptions & {readonly reason?: string; readonly yes?: boolean};

const hold: Change = {
	done: 'held',
	says: copies => `held ${copies}`,
	passesOver: false,
	apply: holdCopies,
};

const release: Change = {
	done: 'released',
	says: copies => `released ${copies}`,
	passesOver: true,
	apply: releaseHeld,
};

const flush: Change = {
	done: 'flushed',
	says: copies => `${copies} due now`,
	passesOver: true,
	apply: makeDue,
};

const end = (done: string, how: GivenUp): Change => ({
	done,
	says: copies => `${done} ${copies}`,
	passesOver: false,
	apply: (trx, step, outbox) => giveUp(trx, step, how, outbox),
});

const failed = 'given up by the operator';

/** The verbs that change copies of the queue. */
export function changeVerbs(queue: Command): void {
	reasonOption(
		targetVerb(queue, 'hold', 'Keep mail in the queue, untried, until it is released', '--destination example.com'),
	).action(changing(async (session, ids, options) => await change(session, hold, ids, options)));

	targetVerb(queue, 'release', 'Let held mail go; each copy is tried when it would have been', 'msg_06f…').action(
		changing(async (session, ids, options) => await change(session, release, ids, options)),
	);

	targetVerb(queue, 'flush', 'Try mail now that waits for a later try; without a filter all', '--older-than 4h').action(
		changing(async (session, ids, options) => {
			await runChange(session, flush, await chosenTargets(session, ids, options, true));
		}),
	);

	yesOption(targetVerb(queue, 'drop', 'End mail as errored, without telling webhooks', 'rcp_06f… --yes')).action(
		changing(async (session, ids, options) => {
			const targets = await chosenTargets(session, ids, options);
			const copies = targets.copies.length === 1 ? 'one copy' : `${grouped(targets.copies.length)} copies`;
			if (targets.copies.length > 0) {
				await session.confirm(`Drop ${copies}? They end as errored and are never sent.`, options.yes);
			}
			await runChange(session, end('dropped', {kind: 'drop'}), targets);
		}),
	);

	reasonOption(
		targetVerb(queue, 'fail', 'End mail as bounced, as if its time were over; webhooks are told', '--older-than 2d'),
	).action(
		changing(async (session, ids, options) => {
			await change(session, end('failed', {kind: 'fail', reason: options.reason ?? failed}), ids, options);
		}),
	);
}

async function change(session: Session, change: Change, ids: readonly string[], options: Options): Promise<void> {
	const {reason} = options;
	await runChange(session, change, await chosenTargets(session, ids, options), reason === undefined ? {} : {reason});
}

function changing(run: (session: Session, ids: readonly string[], options: Options) => Promise<void>) {
	return action<Options, [readonly string[]]>((session, options, ids) => run(session, ids, options));
}

function targetVerb(queue: Command, name: string, about: string, sample: string): Command {
	return targetOptions(verb(queue, `${name} [id...]`, about, `mailctl queue ${name} ${sample}`));
}

function reasonOption(command: Command): Command {
	return command.option('--reason <text>', 'why: kept, and shown by queue why', label('--reason'));
}

/** What is done to copies of the queue. */
export type Change = {
	/** Names the count in the result, and the action in the audit trail: `held`. */
	readonly done: string;
	/** `held 3 copies` */
	readonly says: (copies: string) => string;
	/** Whether a copy that is being tried needs nothing done; else it is asked for again when its try may be over. */
	readonly passesOver: boolean;
	readonly apply: (trx: Knex.Transaction, step: Step, outbox: Outbox) => Promise<readonly ChangedCopy[]>;
};

type Done = {readonly changed: number; readonly busy: readonly string[]};

const copiesPerStep = 500;
/** How long tries under way are waited for, milliseconds: before the second look, before the third … */
const patience = [250, 500, 1000, 2000];

/**
 * Changes the copies step by step, beside a running daemon or without one, and tells what came of it. Throws temporary (75)
 * where some are still being tried.
 */
export async function runChange(
	session: Session,
	change: Change,
	{copies, gone, chosen}: Targets,
	detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
	const noted = {...chosen, ...detail};
	let {changed, busy} = await takeSteps(session, change, copies, noted);
	for (const wait of change.passesOver ? [] : patience) {
		if (busy.length === 0) {
			break;
		}
		await sleep(wait);
		const again = await takeSteps(session, change, busy, noted);
		changed += again.changed;
		busy = again.busy;
	}
	const unchanged = copies.length - changed - busy.length;
	session.show({[change.done]: changed, unchanged, in_flight: busy.length, not_queued: gone.length}, () =>
		copies.length + gone.length === 0
			? ['nothing in the queue matches']
			: [
					...(changed > 0 ? [change.says(copiesOf(changed))] : []),
					...(unchanged > 0 ? [`${copiesOf(unchanged)} as before: nothing was to be changed`] : []),
					...(gone.length > 0 ? [`${copiesOf(gone.length)} not in the queue any more`] : []),
					...(busy.length > 0 && change.passesOver ? [`${copiesOf(busy.length)} being tried right now`] : []),
				],
	);
	if (busy.length > 0 && !change.passesOver) {
		throw new CliError('temporary', `${copiesOf(busy.length)} being tried right now`, 'run it again in a moment');
	}
}

/** Short transactions: a daemon beside goes on writing, and learns of each. */
async function takeSteps(
	session: Session,
	change: Change,
	ids: readonly string[],
	detail: Readonly<Record<string, unknown>>,
): Promise<Done> {
	const {clock, newId} = session.tools;
	// A daemon beside finds by itself what is due.
	const outbox = {newId, onDue: () => undefined};
	const progress = createProgress(session.terminal, clock, 'copies');
	let changed = 0;
	const busy: string[] = [];
	for (let from = 0; from < ids.length; from += copiesPerStep) {
		const some = ids.slice(from, from + copiesPerStep);
		const {silentSince} = await readDaemons(session);
		const now = storeTime(clock.now());
		const done = await session.write(async trx => {
			const copies = await change.apply(trx, {ids: some, now, silentSince}, outbox);
			const action = {action: `queue.${change.done}`, at: now, detail};
			await auditQueue(trx, session.tools, action, copies);
			if (copies.length > 0) {
				await bumpGeneration(trx);
			}
			return {changed: copies.length, busy: await findClaimed(trx, some)};
		});
		changed += done.changed;
		busy.push(...done.busy);
		progress.show(from + some.length, (from + some.length) / ids.length);
	}
	progress.end();
	return {changed, busy};
}

function copiesOf(count: number): string {
	return count === 1 ? '1 copy' : `${grouped(count)} copies`;
}

/** With more of them only the sites that mail waits for are known. */
const mostWorkspaces = 1000;

/** The verbs that stop all mail to a domain, and let it go again. */
export function suspendVerbs(queue: Command): void {
	verb(
		queue,
		'suspend <domain>',
		'Send nothing to a domain until it is resumed; its mail is accepted and waits',
		"mailctl queue suspend example.com --reason 'their disk is full until Monday'",
	)
		.option('--reason <text>', 'why: shown by queue summary and queue why', label('--reason'))
		.action(
			action<{reason?: string}, [string]>(async (session, {reason}, text) => {
				const destination = domain(text);
				const suspension = await session.write(trx => suspendDestination(trx, session.tools, {destination, reason}));
				session.show({...suspension, suspended: true}, () => [
					`nothing is sent to ${destination} since ${shortTime(suspension.created_at)} UTC: ${printable(suspension.reason)}`,
				]);
			}),
		);

	verb(
		queue,
		'resume <domain>',
		'Resume mail to a domain, whether an operator or failures stopped it',
		'mailctl queue resume example.com',
	).action(
		action<object, [string]>(async (session, _options, text) => {
			const destination = domain(text);
			const known = await sitesOf(session, destination);
			const {suspension, sites} = await session.write(trx =>
				resumeDestination(trx, session.tools, {destination, sites: known}),
			);
			const resumed = suspension !== undefined || sites.length > 0;
			session.show({destination, suspended: false, resumed, sites}, () =>
				resumed
					? [
							...(suspension ? [`mail to ${destination} goes again`] : []),
							...sites.map(
								site => `one mail tries the site ${printable(site)} now, which was left alone after failures`,
							),
						]
					: [`${destination} was not suspended`],
			);
		}),
	);
}

/** The sites that mail to a destination would go to now, whoever's it is. */
async function sitesOf(session: Session, destination: string): Promise<string[]> {
	const ways = await openWays(session, {policies: false});
	const workspaces = await listWorkspaces(await session.reader());
	const all = await Promise.all(
		workspaces.slice(0, mostWorkspaces).map(({id}) => ways.wayOf({destination, workspaceId: id})),
	);
	return [...new Set(all.flatMap(way => [way.site, ...(way.warmUp?.overflow ? [way.warmUp.overflow.site] : [])]))];
}
