/** A statement as knex hands it over, and gets it back with its answer. */
export type Statement = {
	sql: string;
	readonly options?: {readonly unanswered?: boolean} | undefined;
	response?: unknown;
};

/** Asked of a statement (`raw(…).options(unanswered)`): the transaction goes on before it is answered. */
export const unanswered = {unanswered: true};

/** What runs outside of a transaction on a connection with this setting writes nothing. */
export const writesInTransactions = 'set default_transaction_read_only = on';

type Running = {
	/** Answers that nobody has waited for; none rejects. */
	readonly sent: Array<Promise<void>>;
	/** How many statements were sent. */
	statements: number;
	/** Of the first statement that failed: those after it fail because of it. Rejections may arrive in another order. */
	failure: {readonly error: unknown; readonly place: number} | null;
};

const running = new WeakMap<object, Running>();

/**
 * Sends a statement of a transaction. BEGIN and what is `unanswered` is taken for done at once: it travels with the next one
 * that somebody waits for, at the latest with COMMIT. Where it fails, PostgreSQL refuses what follows until the transaction ends, and
 * whoever waits next is told why. Should BEGIN itself fail, what follows cannot write (`writesInTransactions`).
 */
export async function sendOn<Sent extends Statement>(
	connection: object,
	statement: Sent,
	send: (statement: Sent) => Promise<unknown>,
): Promise<unknown> {
	const begins = statement.sql === 'BEGIN;';
	const goesOn = begins || statement.options?.unanswered === true;
	if (begins) {
		running.set(connection, {sent: [], statements: 0, failure: null});
		statement.sql = 'begin read write';
	}
	const transaction = running.get(connection);
	if (transaction === undefined) {
		return await send(statement);
	}
	const place = transaction.statements++;
	const answer = send(statement);
	const settled = answer.then(
		() => undefined,
		(error: Error) => {
			if (goesOn) {
				// knex would name the statement at which it is noticed alone.
				error.message = `${statement.sql} - ${error.message}`;
			}
			if (place < (transaction.failure?.place ?? Infinity)) {
				transaction.failure = {error, place};
			}
		},
	);
	if (goesOn) {
		transaction.sent.push(settled);
		return Object.assign(statement, {response: {rows: []}});
	}
	const [commits, undoes] = [statement.sql === 'COMMIT;', statement.sql === 'ROLLBACK'];
	if (commits || undoes) {
		running.delete(connection);
	}
	await Promise.all([...transaction.sent, settled]);
	if (transaction.failure !== null && !undoes) {
		throw transaction.failure.error;
	}
	if (commits && Object(statement.response).command === 'ROLLBACK') {
		throw new Error('PostgreSQL undid the transaction, whose failure was passed over.');
	}
	return await answer;
}
