import type {Knex} from 'knex';
import {groupBy} from '../../kit/collections.ts';
import {nextStates, type RecipientState, recipientStates} from '../../mail/message.ts';
import {type Attempt, providerIdIn} from '../../mail/outcome.ts';
import {type Row, rowSource, rowsOf} from '../engine/dialect.ts';
import {among, insertRows, namedIds} from '../engine/rows.ts';
import {dequeue, postpone} from './open-recipients.ts';

/** How a claimed recipient's row changes at the end of a try. */
export type EndedTry = {
	readonly recipientId: string;
	readonly state: RecipientState;
	readonly stateAt: string;
	readonly nextAttemptAt: string | null;
	readonly attempts: number;
	/** Tries before this one. */
	readonly attemptsBefore: number;
	readonly sentAt: string | null;
	readonly subject: string | null;
	readonly category: string | null;
	readonly reply: string | null;
	readonly crashes: number;
	/** The id of the `queued` event that the claim has for the recipient; null: it was queued before. */
	readonly queued: string | null;
	/** Tracked links of the mail; null: it was not made. */
	readonly links: number | null;
};

const legalSteps = recipientStates.flatMap(from => nextStates[from].map(to => `'${from}>${to}'`)).join();
// What was claimed for the first time is queued.
const before = `case when v.column10 is not null then 'queued' else recipients.state end`;
const mayMove = `(${before} = v.column2 or ${before} || '>' || v.column2 in (${legalSteps}))`;

/**
 * Ends the claims of these attempts and removes or reschedules them in the queue. Compare-and-set: returns those that
 * this daemon still held. While it was frozen another node may have taken a recipient over, and it may have claimed it
 * again after that node's attempt. A recipient that a report ended during the attempt has left the queue already, and
 * its `queued` event is stored.
 */
export async function endClaims(trx: Knex.Transaction, boot: string, tries: readonly EndedTry[]): Promise<EndedTry[]> {
	const held = new Map<string, string | null>();
	for (const [attempts, some] of groupBy(tries, ({attemptsBefore}) => attemptsBefore)) {
		const [condition, ids] = among(
			trx,
			'recipient_id',
			some.map(({recipientId}) => recipientId),
		);
		const rows: Array<{id: string; queued: string | null}> = await rowsOf(
			trx,
			`delete from claims where claimed_by = ? and attempts = ? and ${condition} returning recipient_id as id, queued`,
			[boot, attempts, ...ids],
		);
		for (const {id, queued} of rows) {
			held.set(id, queued);
		}
	}
	const ended = tries
		.filter(({recipientId}) => held.has(recipientId))
		.map(one => (one.queued === held.get(one.recipientId) ? one : {...one, queued: null}));
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
 * Writes the end of many tries; answers the states of the recipients by their ids. A report that came in during the try
 * has moved the state: a step back is not taken.
 */
export async function writeOutcomes(
	trx: Knex.Transaction,
	ended: readonly EndedTry[],
): Promise<Map<string, RecipientState>> {
	if (ended.length === 0) {
		return new Map();
	}
	const {sql, bindings} = rowSource(trx, ended.map(outcomeRow), 11);
	const [named, ids] = namedIds(
		trx,
		'recipients.id',
		ended.map(({recipientId}) => recipientId),
	);
	const rows: Array<{id: string; state: RecipientState}> = await rowsOf(
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

function outcomeRow(one: EndedTry): Row {
	return [
		...[one.recipientId, one.state, one.stateAt, one.attempts, one.sentAt, one.subject, one.category],
		...[one.reply, one.crashes, one.queued, one.links],
	];
}

/**
 * Those of the recipients that a report has ended while they were tried. All stay as they are until the transaction
 * ends.
 */
export async function findReported(trx: Knex.Transaction, recipientIds: readonly string[]): Promise<Set<string>> {
	if (recipientIds.length === 0) {
		return new Set();
	}
	const recipients: Array<{id: string; state: RecipientState}> = await trx('recipients')
		.whereIn('id', recipientIds)
		// In one order: others may be locking the same rows.
		.orderBy('id')
		.forNoKeyUpdate()
		.select('id', 'state');
	return new Set(recipients.filter(({state}) => state === 'bounced' || state === 'complained').map(({id}) => id));
}

/** A try with its conversations. */
type TriedOnce = {
	readonly recipientId: string;
	readonly n: number;
	readonly isCounted: boolean;
	/** A smarthost took the mail: its answer may name it. */
	readonly isRelayed: boolean;
	readonly attempts: readonly Attempt[];
};

const attemptColumns = 'recipient_id n position at host ip tls phase code enhanced reply ms dialogue provider_id'.split(
	' ',
);

/**
 * Every conversation of a try, for `message show`. A try that is recorded already stays as it is: another node may have
 * had the recipient meanwhile, and an outcome must never fail for that.
 */
export async function insertAttempts(trx: Knex.Transaction, tries: readonly TriedOnce[]): Promise<void> {
	// Each counted try has a number of its own, so its rows can be copied. Should they be there after all, the writer
	// tries each item alone.
	const areNew = tries.length > 1 && tries.every(({isCounted}) => isCounted);
	const conflict = areNew ? '' : 'on conflict (recipient_id, n, position) do nothing';
	await insertRows(trx, 'attempts', attemptColumns, tries.flatMap(attemptRows), conflict);
}

function attemptRows({recipientId, n, isRelayed, attempts}: TriedOnce): Row[] {
	const rows: Row[] = [];
	for (const [position, one] of attempts.entries()) {
		const providerId = isRelayed && position === attempts.length - 1 ? providerIdIn(one.reply) : null;
		rows.push([
			...[
				recipientId,
				n,
				position,
				one.at,
				one.host,
				one.ip,
				one.tls,
				one.phase,
				one.code,
				one.enhanced,
				one.reply,
			],
			...[Math.round(one.ms), one.dialogue, providerId],
		]);
	}
	return rows;
}
