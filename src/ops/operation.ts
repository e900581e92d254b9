import type {Knex} from 'knex';
import type {Static, TSchema} from 'typebox';
import {apiErrors} from '../mail/api-error.ts';
import type {Scope} from '../mail/api-key.ts';
import type {Mode} from '../mail/message.ts';
import type {ActTools, Role} from '../mail/operator.ts';
import {type Act, beginAct, recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';

/**
 * Where people and programs ask for operations: the HTTP API, the commands, the forms of the dashboard,
 * `mailctl apply`.
 */
type Face = 'api' | 'cli' | 'dashboard' | 'apply';

/**
 * Who asks for an operation, and where it may work. A face makes it from the key, user or process that it has checked.
 */
export type Context<Workspace extends string | null = string> = {
	readonly face: Face;
	/** The only workspace that the operation reads and changes; null: what belongs to the installation. */
	readonly workspaceId: Workspace;
	/** `test`: by a test key, which changes only what test keys made. */
	readonly mode: Mode;
	/** With the operator whom the audit trail names. */
	readonly tools: ActTools;
	readonly writer: Pick<Writer, 'submit' | 'transaction'>;
	/** As `writer.transaction`; afterwards this process caches nothing from before. */
	readonly change: Writer['transaction'];
	/** Seals and opens secrets of the store. */
	readonly vault: () => Promise<Vault>;
};

/** A context within a transaction. */
export type OperationContext<Workspace extends string | null = string> = Omit<
	Context<Workspace>,
	'writer' | 'change'
> & {
	readonly trx: Knex.Transaction;
};

type Frozen<Value> = Value extends object ? {readonly [Name in keyof Value]: Frozen<Value[Name]>} : Value;

/** What an operation is given: what its schema describes. */
export type Given<Input extends TSchema> = Frozen<Static<Input>>;

type Head<Input extends TSchema> = {
	/** The noun of the command line and the verb: `topic create`. */
	readonly name: string;
	/** The scope that a key of the API needs. */
	readonly scope?: Scope;
	/** The least role of a user of the dashboard. */
	readonly role: Role;
	/** Only for users of all workspaces: what it changes is the installation's. */
	readonly everywhere?: true;
	/** A user needs a log-in or re-authentication of the last minutes. */
	readonly fresh?: true;
	/** Why a face does not have it. */
	readonly without?: {readonly [Name in Face]?: string};
	/** What it takes. The API and the forms check it; commands and `apply` have parsers of their own. */
	readonly input: Input;
	/** The action in the audit trail: `topic.created`. */
	readonly audit: string;
};

/** Runs in one transaction, which records the act. Throws `Refused` where it changes nothing. */
type Single<Input, Result, Workspace extends string | null> = {
	readonly run: (context: OperationContext<Workspace>, input: Input) => Promise<Result>;
	/** What the audit trail has of the act, in addition to who, when and where. */
	readonly entry: (result: Result, input: Input) => Omit<Act, 'action' | 'workspaceId' | 'at'>;
	/** False: no process caches what it changes. Else all read it again. */
	readonly refreshes?: false;
};

/** Writes in several transactions, or in one with others of its kind (a group write); nothing of it is cached. */
type Long<Input, Result, Workspace extends string | null> = {
	/** `begin` gives what records the act of a target, with what is done so far (`beginAct`). */
	readonly work: (
		context: Context<Workspace>,
		input: Input,
		begin: (target: string) => ReturnType<typeof beginAct>,
	) => Promise<Result>;
};

type SingleOperation<Input extends TSchema, Result, Workspace extends string | null = string> = Head<Input> &
	Single<Given<Input>, Result, Workspace>;
type LongOperation<Input extends TSchema, Result, Workspace extends string | null = string> = Head<Input> &
	Long<Given<Input>, Result, Workspace>;

/** One verb of a noun, as all faces know it. */
export type Operation<Input extends TSchema, Result, Workspace extends string | null = string> =
	| SingleOperation<Input, Result, Workspace>
	| LongOperation<Input, Result, Workspace>;

/** Gives the parts of a definition the types of its input and result. */
export const operation = <Input extends TSchema, Result, Workspace extends string | null = string>(
	definition: SingleOperation<Input, Result, Workspace>,
) => definition;
export const longOperation = <Input extends TSchema, Result>(definition: LongOperation<Input, Result>) => definition;

/** Does an operation, records it and has caches refreshed. Throws `Refused`. */
export async function perform<Input extends TSchema, Result, Workspace extends string | null>(
	operation: Operation<Input, Result, Workspace>,
	context: Context<Workspace>,
	input: Given<Input>,
): Promise<Result> {
	if ('work' in operation) {
		const {workspaceId, tools} = context;
		return await operation.work(context, input, target =>
			beginAct(tools, {action: operation.audit, workspaceId, target}),
		);
	}
	const transaction = operation.refreshes === false ? context.writer.transaction : context.change;
	return await transaction(trx => performIn(operation, {...context, trx}, input));
}

/** The same as a part of a transaction that does more. */
export async function performIn<Input extends TSchema, Result, Workspace extends string | null>(
	{run, audit, entry, refreshes}: SingleOperation<Input, Result, Workspace>,
	context: OperationContext<Workspace>,
	input: Given<Input>,
): Promise<Result> {
	const {trx, tools, workspaceId} = context;
	const result = await run(context, input);
	await recordAct(trx, tools, {action: audit, workspaceId, ...entry(result, input)});
	if (refreshes !== false) {
		await bumpGeneration(trx);
	}
	return result;
}

type Words = {
	/** A clause for the command line, with what to do next. */
	readonly wrong: string;
	readonly next: string;
	/** A sentence for the API; absent: the usual one of the code. */
	readonly api?: string;
	/** A sentence for the dashboard; absent: the clause. */
	readonly page?: string;
	/** For `rate_limited`: how long until it can succeed. */
	readonly retryAfterMs?: number;
};

/**
 * Why an operation changed nothing. The API answers with the code and its status, a command ends with 65, a form shows
 * its page again (422), or 404 and 403 where the thing is missing or not theirs to change.
 */
export class Refused extends Error {
	readonly code:
		| 'not_found'
		| 'message_not_found'
		| 'conflict'
		| 'not_cancellable'
		| 'insufficient_scope'
		| 'rate_limited'
		| 'unprocessable_entity';
	readonly wrong: string;
	readonly next: string;
	readonly page: string;
	readonly retryAfterMs: number | undefined;

	constructor(code: Refused['code'], {wrong, next, api, page, retryAfterMs}: Words) {
		super(api ?? apiErrors[code].message);
		this.code = code;
		this.wrong = wrong;
		this.next = next;
		this.retryAfterMs = retryAfterMs;
		this.page = page ?? `${wrong.charAt(0).toUpperCase()}${wrong.slice(1)}.`;
	}
}

/** Throws that there is no such thing. `words`: what differs from the usual ones. */
export function notFound(noun: string, name: string, words: Partial<Words> = {}): never {
	const usual = {
		wrong: `there is no ${noun} ${name}`,
		next: `see mailctl ${noun} list`,
		page: `There is no such ${noun}.`,
	};
	throw new Refused('not_found', {...usual, ...words});
}

/** Throws that a field of the input cannot be used. `must`: what it must be. */
export function unusable(field: string, must: string): never {
	const wrong = `${field} ${must}`;
	throw new Refused('unprocessable_entity', {wrong, next: 'give another one', api: `${wrong}.`});
}

/** Throws that the name is in use. `by`: what must be unique. */
export function taken(noun: string, by: string, name: string): never {
	throw new Refused('conflict', {
		wrong: `there is a ${noun} ${name} already`,
		next: `see mailctl ${noun} list`,
		api: `There is a ${noun} with this ${by} already.`,
	});
}
