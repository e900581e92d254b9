import type {Knex} from 'knex';
import {groupBy} from '../../kit/collections.ts';
import {nextStates, type RecipientState, recipientStates} from '../../mail/message.ts';
import {type Attempt, providerIdIn} from '../../mail/outcome.ts';
import {queryRows, type Row, rowSource} from '../engine/dialect.ts';
import {among, insertRows, namedIds} from '../engine/rows.ts';
import {dequeue, postpone} from './open-recipients.ts';

/** The change of a claimed recipient's row at the end of an attempt. */
export type EndedAttempt = {
	readonly recipientId: string;
	readonly state: RecipientState;
	readonly stateAt: string;
	readonly nextAttemptAt: string | null;
	readonly attempts: number;
	/** The number of attempts before this one. */
	readonly attemptsBefore: number;
	readonly sentAt: string | null;
	readonly subject: string | null;
	readonly category: string | null;
	readonly reply: string | null;
	readonly crashes: number;
	/** The id of the `queued` event that the claim holds for the recipient; `null` if it was queued before. */
	readonly queued: string | null;
	/** The number of tracked links in the email; `null` if it was not created. */
	readonly links: number | null;
};

const legalMoves = recipientStates.flatMap(from => nextStates[from].map(to => `'${from}>${to}'`)).join();
// The claim holds the `queued` event of a first attempt. Until that attempt ends, the row itself is not `queued` yet.
const stateBefore = `case when v.column10 is not null then 'queued' else recipients.state end`;
const mayMove = `(${stateBefore} = v.column2 or ${stateBefore} || '>' || v.column2 in (${legalMoves}))`;

/**
 * Ends the claims of these attempts, and dequeues or reschedules their recipients. Compare-and-set: returns those that
 * this daemon still held. While the daemon was frozen, another node may have claimed a recipient, and this daemon may
 * have claimed it again after that node's attempt. A recipient that a report ended during the attempt has left the
 * queue already, and its `queued` event is stored.
 */
export async function endClaims(
	trx: Knex.Transaction,
	boot: string,
	outcomes: readonly EndedAttempt[],
): Promise<EndedAttempt[]> {
	const held = new Map<string, string | null>();
	for (const [attempts, group] of groupBy(outcomes, ({attemptsBefore}) => attemptsBefore)) {
		const [condition, ids] = among(
			trx,
			'recipient_id',
			group.map(({recipientId}) => recipientId),
		);
		const rows: Array<{id: string; queued: string | null}> = await queryRows(
			trx,
			`delete from claims
				where claimed_by = ? and attempts = ? and ${condition} returning recipient_id as id, queued`,
			[boot, attempts, ...ids],
		);
		for (const {id, queued} of rows) {
			held.set(id, queued);
		}
	}
	const ended = outcomes
		.filter(({recipientId}) => held.has(recipientId))
		.map(outcome => (outcome.queued === held.get(outcome.recipientId) ? outcome : {...outcome, queued: null}));
	await dequeue(
		trx,
		ended.filter(({nextAttemptAt}) => nextAttemptAt === null).map(({recipientId}) => recipientId),
	);
	await postpone(
		trx,
		ended.flatMap(({recipientId, nextAttemptAt, attempts}) =>
			nextAttemptAt === null ? [] : [{recipientId, nextAttemptAt, attempts}],
		),
	);
	return ended;
}

/**
 * Writes the outcomes of many attempts; returns the states of the recipients by their ids. A report received during the
 * attempt may have changed the state. It never moves backward.
 */
export async function writeOutcomes(
	trx: Knex.Transaction,
	ended: readonly EndedAttempt[],
): Promise<Map<string, RecipientState>> {
	if (ended.length === 0) {
		return new Map();
	}
	const values = ended.map(
		(outcome): Row => [
			outcome.recipientId,
			outcome.state,
			outcome.stateAt,
			outcome.attempts,
			outcome.sentAt,
			outcome.subject,
			outcome.category,
			outcome.reply,
			outcome.crashes,
			outcome.queued,
			outcome.links,
		],
	);
	const {sql, bindings} = rowSource(trx, values, 11);
	const [named, ids] = namedIds(
		trx,
		'recipients.id',
		ended.map(({recipientId}) => recipientId),
	);
	const rows: Array<{id: string; state: RecipientState}> = await queryRows(
		trx,
		`update recipients set
			state = case when ${mayMove} then v.column2 else recipients.state end,
			state_at = case when ${mayMove} then v.column3 else recipients.state_at end,
			attempts = cast(v.column4 as integer), sent_at = v.column5, subject = v.column6, last_category = v.column7,
			last_reply = v.column8, crashes = cast(v.column9 as integer),
			links = coalesce(cast(v.column11 as integer), recipients.links)
		from (${sql}) as v
		where recipients.id = v.column1 and ${named}
		returning recipients.id, recipients.state`,
		[...bindings, ...ids],
	);
	return new Map(rows.map(({id, state}) => [id, state]));
}

/** Returns recipients that a report has ended during their attempt. Locks all of them until the transaction ends. */
export async function findReported(trx: Knex.Transaction, recipientIds: readonly string[]): Promise<Set<string>> {
	if (recipientIds.length === 0) {
		return new Set();
	}
	const recipients: Array<{id: string; state: RecipientState}> = await trx('recipients')
		.whereIn('id', recipientIds)
		// In a fixed order, because others may be locking the same rows.
		.orderBy('id')
		.forNoKeyUpdate()
		.select('id', 'state');
	return new Set(recipients.filter(({state}) => state === 'bounced' || state === 'complained').map(({id}) => id));
}

/** An attempt with its conversations. */
type AttemptRecord = {
	readonly recipientId: string;
	readonly n: number;
	readonly isCounted: boolean;
	/** Whether a relay accepted the message; its reply may contain the relay's id for it. */
	readonly isRelayed: boolean;
	readonly attempts: readonly Attempt[];
};

const attemptColumns = 'recipient_id n position at host ip tls phase code enhanced reply ms dialogue provider_id'.split(
	' ',
);

/**
 * Inserts every conversation of attempts, for `message show`. An attempt that is already stored stays as it is: another
 * node may have claimed the recipient in the meantime, and an outcome must never fail because of that.
 */
export async function insertAttempts(trx: Knex.Transaction, attempts: readonly AttemptRecord[]): Promise<void> {
	// Counted attempts have distinct numbers, so COPY can insert their rows. It fails if some exist after all; then the
	// writer retries each item alone.
	const canCopy = attempts.length > 1 && attempts.every(({isCounted}) => isCounted);
	const conflict = canCopy ? '' : 'on conflict (recipient_id, n, position) do nothing';
	await insertRows(trx, 'attempts', attemptColumns, attempts.flatMap(attemptRows), conflict);
}

function attemptRows({recipientId, n, isRelayed, attempts}: AttemptRecord): Row[] {
	const rows: Row[] = [];
	for (const [position, attempt] of attempts.entries()) {
		const providerId = isRelayed && position === attempts.length - 1 ? providerIdIn(attempt.reply) : null;
		rows.push([
			recipientId,
			n,
			position,
			attempt.at,
			attempt.host,
			attempt.ip,
			attempt.tls,
			attempt.phase,
			attempt.code,
			attempt.enhanced,
			attempt.reply,
			Math.round(attempt.ms),
			attempt.dialogue,
			providerId,
		]);
	}
	return rows;
}
