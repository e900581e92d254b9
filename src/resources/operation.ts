import type {Knex} from 'knex';
import type {Static, TSchema} from 'typebox';
import {apiErrors} from '../mail/api-error.ts';
import type {Scope} from '../mail/api-key.ts';
import type {Mode} from '../mail/message.ts';
import type {ActTools, Role} from '../mail/operator.ts';
import {bumpGeneration} from '../store/changes.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';
import {type Act, beginAct, recordAct} from './audit/store.ts';

/** The interfaces that offer operations: the HTTP API, the CLI, the forms of the dashboard and `mailctl apply`. */
type Face = 'api' | 'cli' | 'dashboard' | 'apply';

/**
 * Who performs an operation, and in which workspace. An interface creates it from the key, user or process that it has
 * authenticated.
 */
export type Context<Workspace extends string | null = string> = {
	readonly face: Face;
	/** The only workspace that the operation reads and changes; `null` for objects of the installation. */
	readonly workspaceId: Workspace;
	/** `test` for a test key, which can change only what test keys created. */
	readonly mode: Mode;
	/** Includes the operator that the audit trail names. */
	readonly tools: ActTools;
	readonly writer: Pick<Writer, 'submit' | 'transaction'>;
	/** Like `writer.transaction`, but also clears this process's caches afterwards. */
	readonly change: Writer['transaction'];
	/** Seals and opens secrets of the store. */
	readonly vault: () => Promise<Vault>;
	/** Reports how much of a long operation is done. */
	readonly onProgress?: ((done: number) => void) | undefined;
};

/** A context within a transaction. */
export type OperationContext<Workspace extends string | null = string> = Omit<
	Context<Workspace>,
	'writer' | 'change' | 'onProgress'
> & {
	readonly trx: Knex.Transaction;
};

type Frozen<Value> = Value extends object ? {readonly [Name in keyof Value]: Frozen<Value[Name]>} : Value;

/** The input of an operation, as its schema describes it. */
export type InputOf<Input extends TSchema> = Frozen<Static<Input>>;

type Head<Input extends TSchema> = {
	/** Noun and verb, as in the command: `topic create`. */
	readonly name: string;
	/** What the command does, for its help. */
	readonly summary?: string;
	/** The scope that an API key needs. */
	readonly scope?: Scope;
	/** The lowest role of a dashboard user that may perform it. */
	readonly role: Role;
	/** Restricts it to users of all workspaces, because it affects the whole installation. */
	readonly everywhere?: true;
	/** Requires that the user signed in or re-authenticated within the last minutes. */
	readonly fresh?: true;
	/** Whether it seals or opens secrets. Without it, `vault` throws. */
	readonly seals?: true;
	/** The interfaces that do not offer it, each with the reason. */
	readonly without?: {readonly [Name in Face]?: string};
	/** The input, whose fields the interfaces show too (`field` of fields.ts). */
	readonly input: Input;
	/** The action in the audit trail: `topic.created`. */
	readonly audit: string;
};

/** What the interfaces read of an operation before they perform it. */
export type OperationHead = Head<TSchema>;

/**
 * What the audit trail records in addition to the actor and time. By default, the action is `audit`, and the workspace
 * is that of the context.
 */
type Entry = Omit<Act, 'action' | 'workspaceId' | 'at'> & Partial<Pick<Act, 'action' | 'workspaceId'>>;

/** Runs in one transaction, which also records the act. Throws `Refused` if it cannot be performed. */
type Single<Input, Result, Workspace extends string | null> = {
	readonly run: (context: OperationContext<Workspace>, input: Input) => Promise<Result>;
	/** Returns one entry, or one for each object that was changed. No entry means that nothing was changed. */
	readonly entry: (result: Result, input: Input) => Entry | readonly Entry[];
	/** `false` if no process caches what it changes. By default all processes refresh their caches. */
	readonly refreshes?: false;
};

/** Writes in several transactions, or in a group write. It bumps the generation itself if processes cache the rows. */
type Long<Input, Result, Workspace extends string | null> = {
	/** `begin` returns a function that records the progress of the act on a target (see `beginAct`). */
	readonly work: (
		context: Context<Workspace>,
		input: Input,
		begin: (target: string | null) => ReturnType<typeof beginAct>,
	) => Promise<Result>;
};

export type SingleOperation<
	Input extends TSchema,
	Result,
	Workspace extends string | null = string,
	Extra = unknown,
> = Head<Input> & Single<InputOf<Input> & Extra, Result, Workspace>;
type LongOperation<
	Input extends TSchema,
	Result,
	Workspace extends string | null = string,
	Extra = unknown,
> = Head<Input> & Long<InputOf<Input> & Extra, Result, Workspace>;

/**
 * An action that people and programs can perform on an object. `src/resources` defines each one once, with its input,
 * its permissions and its audit entry, so that the API, the CLI, the dashboard and `mailctl apply` all behave alike.
 * The operations rely on `src/store` for their data. They never authenticate anyone: the interfaces do that first.
 *
 * `Extra` is what an interface adds to the input: what has to be ready before the transaction begins, such as keys that
 * take long to generate, and what no caller of the API may choose.
 */
export type Operation<Input extends TSchema, Result, Workspace extends string | null = string, Extra = unknown> =
	| SingleOperation<Input, Result, Workspace, Extra>
	| LongOperation<Input, Result, Workspace, Extra>;

/** Infers the types of an operation's input and result from its definition. */
export const operation = <Input extends TSchema, Result, Workspace extends string | null = string, Extra = unknown>(
	definition: SingleOperation<Input, Result, Workspace, Extra>,
) => definition;
export const longOperation = <Input extends TSchema, Result>(definition: LongOperation<Input, Result>) => definition;

/** Performs an operation, records it in the audit trail, and makes all processes refresh their caches. */
export async function perform<Input extends TSchema, Result, Workspace extends string | null, Extra>(
	operation: Operation<Input, Result, Workspace, Extra>,
	context: Context<Workspace>,
	input: InputOf<Input> & Extra,
): Promise<Result> {
	if ('work' in operation) {
		const {workspaceId, tools} = context;
		return await operation.work(context, input, target =>
			beginAct(tools, {action: operation.audit, workspaceId, target}),
		);
	}
	if (operation.seals) {
		// The first use of the vault may store a new key in a transaction of its own, which must not wait for this one.
		await context.vault();
	}
	const transaction = operation.refreshes === false ? context.writer.transaction : context.change;
	return await transaction(trx => performIn(operation, {...context, trx}, input));
}

/** Performs an operation as part of the caller's transaction. */
export async function performIn<Input extends TSchema, Result, Workspace extends string | null, Extra>(
	{name, seals, run, audit, entry, refreshes}: SingleOperation<Input, Result, Workspace, Extra>,
	context: OperationContext<Workspace>,
	input: InputOf<Input> & Extra,
): Promise<Result> {
	const {trx, tools, workspaceId} = context;
	const vault = () => {
		throw new Error(`The operation ${name} uses the vault without declaring that it seals.`);
	};
	const result = await run(seals ? context : {...context, vault}, input);
	const entries = [entry(result, input)].flat();
	for (const act of entries) {
		await recordAct(trx, tools, {action: audit, workspaceId, ...act});
	}
	if (refreshes !== false && entries.length > 0) {
		await bumpGeneration(trx);
	}
	return result;
}

type RefusalTexts = {
	/** The problem, as a clause for the command line. */
	readonly wrong: string;
	/** How to fix the problem, as a clause for the command line. */
	readonly next: string;
	/** A sentence for the API. Defaults to the message of the error code. */
	readonly api?: string;
	/** A sentence for the dashboard. Defaults to `wrong`. */
	readonly page?: string;
	/** For `rate_limited`: milliseconds until the operation can succeed. */
	readonly retryAfterMs?: number;
};

/**
 * The reason why an operation changed nothing. The API responds with the code and its status, and a command exits with
 * 65. The dashboard shows the form again with status 422, or a page with 404 or 403.
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

	constructor(code: Refused['code'], {wrong, next, api, page, retryAfterMs}: RefusalTexts) {
		super(api ?? apiErrors[code].message);
		this.code = code;
		this.wrong = wrong;
		this.next = next;
		this.retryAfterMs = retryAfterMs;
		this.page = page ?? `${wrong.charAt(0).toUpperCase()}${wrong.slice(1)}.`;
	}
}

/** Throws `Refused` because an object does not exist. `texts` overrides the default texts. */
export function notFound(noun: string, name: string, texts: Partial<RefusalTexts> = {}): never {
	const defaults = {
		wrong: `${noun} ${name} not found`,
		next: `see mailctl ${noun} list`,
		page: `This ${noun} does not exist.`,
	};
	throw new Refused('not_found', {...defaults, ...texts});
}

/** Throws `Refused` because a field is invalid. `must` is the rest of the sentence, such as `must be a URL`. */
export function refuseField(field: string, must: string): never {
	const wrong = `${field} ${must}`;
	throw new Refused('unprocessable_entity', {wrong, next: 'correct the value', api: `${wrong}.`});
}

/** Throws `Refused` because a name is in use. `by` is the field that must be unique. */
export function alreadyExists(noun: string, by: string, name: string): never {
	throw new Refused('conflict', {
		wrong: `the ${noun} ${name} already exists`,
		next: `see mailctl ${noun} list`,
		api: `A ${noun} with this ${by} already exists.`,
	});
}
