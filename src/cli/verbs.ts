import type {Knex} from 'knex';
import type {TSchema} from 'typebox';
import {defined} from '../kit/collections.ts';
import {type Field, listFields} from '../resources/fields.ts';
import type {InputOf, Operation} from '../resources/operation.ts';
import {CliError} from './fault.ts';
import {addFieldOptions, type Parsers, readFieldOptions} from './field-options.ts';
import {readSecret} from './files.ts';
import {changesIn, oneOf} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import type {Noun} from './terminal-text.ts';

// The verbs that several nouns have.

type Verb<Input, Result, Found extends {readonly id: string}> = {
	readonly sample: string;
	/** The field that an argument sets instead of an option, such as the object to change; `id|code` for either. */
	readonly by?: string;
	/** The kind of id that the argument may be, in full or as a unique prefix. */
	readonly kind?: Parameters<Session['idOf']>[0];
	/** Finds the object that the argument names. The operation gets its id. Throws `Refused` or `CliError`. */
	readonly find?: (session: Session, argument: string) => Promise<Found>;
	/** The names of the fields that are options, if not all of them are. */
	readonly only?: readonly string[];
	readonly parsers?: Parsers;
	/** Asks for confirmation before the argument's object is destroyed. The verb has `--yes` then. */
	readonly question?: (session: Session, argument: string, found: Found) => string | Promise<string>;
	/** Checks and completes what was entered. Throws `Refused` or `CliError`. */
	readonly complete?: (session: Session, input: Input) => Promise<Input>;
	readonly shows: Noun<Result> | ((session: Session, result: Result, input: Input) => void | Promise<void>);
};

/**
 * Adds the verb that performs an operation in the selected workspace and shows its result. Its options are the fields
 * of the operation. `update` requires at least one of them.
 */
export function operationVerb<Input extends TSchema, Result, Found extends {readonly id: string}>(
	noun: CliCommand,
	operation: Operation<Input, Result>,
	verb: Verb<InputOf<Input>, Result, Found>,
): void {
	addVerb(noun, operation, verb, {
		find: session => session.workspace(),
		perform: (session, input) => session.perform(operation, input),
	});
}

/** Adds the verb of an operation that affects the whole installation unless `--workspace` is set. */
export function installationVerb<Input extends TSchema, Result, Found extends {readonly id: string}>(
	noun: CliCommand,
	operation: Operation<Input, Result, string | null>,
	verb: Verb<InputOf<Input>, Result, Found>,
): void {
	addVerb(noun, operation, verb, {
		find: session => session.chosenWorkspace(),
		perform: (session, input) => session.performAnywhere(operation, input),
	});
}

/** What an operation affects: one workspace, or the whole installation. */
type Target<Input, Result> = {
	/** Throws `CliError` if the workspace does not exist. */
	readonly find: (session: Session) => Promise<unknown>;
	readonly perform: (session: Session, input: Input) => Promise<Result>;
};

function addVerb<Input extends TSchema, Result, Found extends {readonly id: string}>(
	noun: CliCommand,
	{name, summary = '', input: schema}: Pick<Operation<Input, Result>, 'name' | 'summary' | 'input'>,
	{sample, by, kind, find, only, parsers, question, complete, shows}: Verb<InputOf<Input>, Result, Found>,
	target: Target<InputOf<Input>, Result>,
): void {
	const [, verb = ''] = name.split(' ');
	const argumentFields = find ? ['id'] : (by?.split('|') ?? []);
	const allFields = listFields(schema);
	const fields = allFields.filter(field => only?.includes(field.name) ?? !argumentFields.includes(field.name));
	const choices = allFields.find(field => field.name === by)?.schema.enum;
	const parse = choices ? oneOf(`the ${by}`, choices) : (text: string) => text;
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	if (question) {
		command.yesOption();
	}
	addFieldOptions(command, fields, parsers).does<{yes?: boolean}, [string]>(async (session, options, argument) => {
		const values = await readSecrets(fields, readFieldOptions(fields, options));
		const changes = verb === 'update' ? changesIn(values) : values;
		const found = find && (await find(session, argument));
		const selection = found
			? {id: found.id}
			: by && (await readArgument(session, argumentFields, kind, parse(argument)));
		const entered = {...changes, ...selection} as InputOf<Input>;
		if (question) {
			await target.find(session);
			await session.confirm(await question(session, argument, found as Found), options.yes);
		}
		const input = complete ? await complete(session, entered) : entered;
		const result = await target.perform(session, input);
		await (typeof shows === 'function' ? shows(session, result, input) : session.printRow(shows, result));
	});
}

/** Returns the field that an argument sets. An unknown id stays as entered, so that the operation refuses it. */
async function readArgument(
	session: Session,
	fields: readonly string[],
	kind: Parameters<Session['idOf']>[0] | undefined,
	argument: string,
): Promise<object> {
	const id = kind && (await session.idOf(kind, argument));
	return id === undefined ? {[fields.at(-1) as string]: argument} : {id};
}

/** Replaces `-` with the content of standard input. An empty secret counts as absent. */
async function readSecrets(fields: readonly Field[], values: Readonly<Record<string, unknown>>): Promise<object> {
	const secrets = fields.filter(({name, isSecret}) => isSecret && Object.hasOwn(values, name));
	const entries = secrets.map(
		async ({name}) => [name, (await readSecret(String(values[name]))) || undefined] as const,
	);
	return defined({...values, ...Object.fromEntries(await Promise.all(entries))});
}

/** Adds `list`, which shows rows of the workspace. The noun is a function if it depends on the time or on secrets. */
export function listVerb<Row>(
	noun: CliCommand,
	about: string,
	shows: Noun<Row> | ((session: Session) => Noun<Row> | Promise<Noun<Row>>),
	read: (reader: Knex, workspaceId: string) => Promise<readonly Row[]>,
): void {
	noun.verb('list', about)
		.sample(`mailctl ${noun.name()} list`)
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(typeof shows === 'function' ? await shows(session) : shows, await read(reader, workspaceId));
		});
}

/**
 * Finds an object of the installation, or of the workspace of `--workspace`, by the unique prefix of its id or by its
 * target. Throws a data error (65).
 */
export async function findNamed<Row extends {readonly id: string; readonly target?: string}>(
	session: Session,
	noun: string,
	list: (reader: Knex, workspaceId: string | null) => Promise<readonly Row[]>,
	text: string,
): Promise<Row> {
	const rows = await list(await session.reader(), (await session.chosenWorkspace())?.id ?? null);
	const [row, ...otherRows] = rows.filter(({id, target}) => target === text || (text !== '' && id.startsWith(text)));
	if (row === undefined || otherRows.length > 0) {
		const problem = row === undefined ? `${noun} ${text} not found` : `${text} is ambiguous`;
		throw new CliError('data', problem, `see mailctl ${noun} list`);
	}
	return row;
}
