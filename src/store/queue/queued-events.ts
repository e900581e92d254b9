import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idTime} from '../../mail/ids.ts';
import type {Role} from '../../mail/message.ts';
import {rowSource, rowsOf} from '../engine/dialect.ts';
import {insertRows} from '../engine/insert-rows.ts';
import {among, namedIds} from '../engine/near-ids.ts';
import {queuedEvent} from '../event-rows.ts';
import {insertEvents} from '../events.ts';

/** What a claim says of its copy: `queued` is the id of the event of a first one. */
type Claim = {readonly recipient_id: string; readonly attempts: number; readonly queued: string | null};

const told = ['recipient_id', 'attempts', 'queued'] as const;

/** Ends claims without an outcome. What was seen of a first one stays: its copy is queued, and its event is stored. */
export async function endClaims(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<number> {
	return (await end(trx, claims)).length;
}

/** The same where the daemon died: each copy may have been sent, so its timeline says so. It is no try of the copy. */
export async function endCutOff(trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string): Promise<number> {
	const ended = await end(trx, claims);
	const reply = 'possible duplicate: the daemon ended while it had this copy, which may have been sent';
	await insertRows(
		trx,
		'attempts',
		['recipient_id', 'n', 'position', 'at', 'phase', 'reply', 'ms'],
		// Before the conversations of the try that follows.
		ended.map(({recipient_id: id, attempts}) => [id, attempts + 1, -1, now, 'dot', reply, 0]),
		'on conflict (recipient_id, n, position) do nothing',
	);
	return ended.length;
}

async function end(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<Claim[]> {
	const ended = await takeClaims(trx, claims);
	await storeQueued(trx, ended);
	return ended;
}

/** The same in two steps, for those who lock something between: rows of `recipients` come last. */
export async function takeClaims(
	trx: Knex.Transaction,
	claims: Knex.QueryBuilder,
	lock = lockInOrder,
): Promise<Claim[]> {
	const taken: Claim[] = await lock(claims.orderBy('recipient_id').select([...told]));
	await (taken.length > 0 && claimsOf(trx, taken).delete());
	return taken;
}

/** Of these copies, whose states change during their tries, the claims go on without the event: the caller stores it. */
export async function takeQueued(
	trx: Knex.Transaction,
	recipientIds: readonly string[],
	lock = lockInOrder,
): Promise<Claim[]> {
	const first: Claim[] = await lock(
		trx('claims')
			.whereIn('recipient_id', recipientIds)
			.whereNotNull('queued')
			.orderBy('recipient_id')
			.select([...told]),
	);
	await (first.length > 0 && claimsOf(trx, first).update({queued: null}));
	return first;
}

/** Before rows of the queue are locked. After that it is `lockLate`. */
const lockInOrder = async (claims: Knex.QueryBuilder): Promise<Claim[]> => await claims.forUpdate();

function claimsOf(trx: Knex.Transaction, claims: readonly Claim[]): Knex.QueryBuilder {
	return trx('claims').whereRaw(
		...among(
			trx,
			'recipient_id',
			claims.map(({recipient_id: id}) => id),
		),
	);
}

/** Moves the copies of first claims on to `queued`, and stores their events. A copy that had moved already keeps its state. */
export async function storeQueued(trx: Knex.Transaction, claims: readonly Claim[]): Promise<void> {
	const first = claims.flatMap(({recipient_id: id, queued}) => (queued === null ? [] : [{id, queued}]));
	if (first.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		first.map(({id, queued}) => [id, storeTime(idTime(queued))]),
		2,
	);
	const [named, ids] = namedIds(
		trx,
		'recipients.id',
		first.map(({id}) => id),
	);
	const moved: Array<{id: string; message_id: string; role: Role}> = await rowsOf(
		trx,
		`update recipients set state = 'queued', state_at = v.column2 from (${sql}) as v
		where recipients.id = v.column1 and recipients.state = 'accepted' and ${named}
		returning recipients.id, recipients.message_id, recipients.role`,
		[...bindings, ...ids],
	);
	const eventOf = new Map(first.map(({id, queued}) => [id, queued]));
	await insertEvents(
		trx,
		moved
			.filter(({role}) => role === 'to')
			.map(({id, message_id: messageId}) => ({
				...queuedEvent(eventOf.get(id) as string),
				...{messageId, recipientId: id},
			})),
	);
}
