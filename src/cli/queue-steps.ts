import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import {auditQueue} from '../admin/queue-audit.ts';
import {storeTime} from '../mail/time.ts';
import type {Outbox} from '../outcome/outbox.ts';
import {bumpGeneration} from '../store/changes.ts';
import {type ChangedCopy, findClaimed, type Step} from '../store/queue-change.ts';
import {readDaemons} from './daemons.ts';
import {CliError} from './fault.ts';
import {createProgress, grouped} from './progress.ts';
import type {Targets} from './queue-targets.ts';
import type {Session} from './session.ts';

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
