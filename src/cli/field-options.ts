import {Option} from 'commander';
import type {TSchema} from 'typebox';
import {defined} from '../kit/collections.ts';
import {snakeCase} from '../kit/text.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import type {InputOf, Operation} from '../resources/operation.ts';
import {readSecret} from './files.ts';
import {changesIn, none, oneOf, orNull, refuse} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import type {Noun} from './terminal-text.ts';

// The options of a verb, from the fields of an operation's input (src/resources/fields.ts).

/** Parsers of fields that need more than their schema, by the name of the field. */
type Parsers = Readonly<Record<string, (text: string, previous: unknown) => unknown>>;

/** Adds an option for each field. An update can also turn its flags off. */
export function addFieldOptions(command: CliCommand, fields: readonly Field[], parsers: Parsers = {}): CliCommand {
	for (const field of fields) {
		const parser = parsers[field.name] ?? (field.isList ? toListParser(field) : toParser(field));
		const option = toOption(field).makeOptionMandatory(field.isRequired);
		command.addOption(field.kind === 'flag' ? option : option.argParser(parser));
	}
	if (command.name() === 'update') {
		for (const flag of fields.filter(({kind}) => kind === 'flag')) {
			const name = toOption(flag).name();
			command.option(`--no-${name}`, `turn off --${name}`);
		}
	}
	return command;
}

/** Returns the values of the options that were set. */
export function readFieldOptions<Input extends object>(fields: readonly Field[], options: object): Input {
	const entries = fields.map(field => {
		const value = valueAt(options, toOption(field).attributeName());
		return [field.name, field.isNullable ? orNull(value) : value] as const;
	});
	return toInput<Input>(entries.filter(([, value]) => value !== undefined));
}

const toOption = (field: Field): Option => new Option(toFlags(field), toHelp(field));

const placeholders: Readonly<Partial<Record<Field['kind'], string>>> = {
	'long text': 'text',
	count: 'n',
	duration: 'duration',
	size: 'size',
};

/** `--monthly-quota <n>`; a flag has no value. */
function toFlags({name, kind, option}: Field): string {
	const long = option ?? snakeCase(name).replaceAll(/[_.]/g, '-');
	const placeholder = placeholders[kind] ?? long.split('-').at(-1);
	return kind === 'flag' || long.includes('<') ? `--${long}` : `--${long} <${placeholder}>`;
}

const maxListedChoices = 12;

/** The description as a clause, with the choices and the default. The word `none` stands for `null` here. */
function toHelp({description, isList, isSecret, schema, default: initial}: Field): string {
	const {enum: choices = []} = schema;
	const clause = lowerFirst(description.replaceAll('`null`', none).replaceAll('`', '').replace(/\.$/, ''));
	return [
		choices.length > maxListedChoices || choices.length === 0 ? clause : `${clause} (${choices.join(', ')})`,
		...(isList ? ['repeatable, or separated by commas'] : []),
		...(initial === undefined ? [] : [`default: ${initial}`]),
		...(isSecret ? ['- reads it from standard input'] : []),
	].join('; ');
}

function toParser(field: Field): (text: string) => unknown {
	const flag = `--${toOption(field).name()}`;
	const words = field.isNullable ? [none, ...(field.default === undefined ? [] : ['default'])] : [];
	const parse = (text: string) => {
		if (words.includes(text)) {
			return none;
		}
		const parsed = parseField(field, text);
		return parsed.ok ? parsed.value : refuse(flag, text, toFix(parsed.problem));
	};
	return Object.assign(parse, {choices: field.schema.enum});
}

/** The values of a list are separated by commas, or have an option each. `none` clears a list that may be empty. */
function toListParser(field: Field): (text: string, previous: unknown) => unknown {
	const parse = toParser(field);
	const parseAll = (text: string, previous: unknown = []) => {
		if (text === none && field.minItems === 0) {
			return [];
		}
		const texts = text.trim().split(/[\s,]+/);
		const values = new Set([...(previous as readonly unknown[]), ...texts.map(parse)]);
		return values.size > field.maxItems
			? refuse(`--${toOption(field).name()}`, text, `use at most ${field.maxItems} values`)
			: [...values];
	};
	return Object.assign(parseAll, {choices: field.schema.enum});
}

/** Converts what is wrong to advice: `must be a size` to `use a size`. */
function toFix(problem: string): string {
	return /^must be /.test(problem) ? problem.replace(/^must be (?:one of )?/, 'use ') : `it ${problem}`;
}

type Verb<Input, Result, Found extends {readonly id: string}> = {
	readonly sample: string;
	/** The field that an argument sets instead of an option, such as the object to change; `id|code` for either. */
	readonly by?: string;
	/** The kind of the id that the argument may be, whole or as a unique prefix. */
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
 * Adds the verb that performs an operation in the selected workspace and shows its result. Its options are the fields of
 * the operation. `update` requires at least one of them.
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

/** Where an operation works. */
type Place<Input, Result> = {
	/** Throws `CliError` if the workspace does not exist. */
	readonly find: (session: Session) => Promise<unknown>;
	readonly perform: (session: Session, input: Input) => Promise<Result>;
};

function addVerb<Input extends TSchema, Result, Found extends {readonly id: string}>(
	noun: CliCommand,
	{name, summary = '', input: schema}: Pick<Operation<Input, Result>, 'name' | 'summary' | 'input'>,
	{sample, by, kind, find, only, parsers, question, complete, shows}: Verb<InputOf<Input>, Result, Found>,
	place: Place<InputOf<Input>, Result>,
): void {
	const [, verb = ''] = name.split(' ');
	const names = find ? ['id'] : (by?.split('|') ?? []);
	const all = listFields(schema);
	const fields = all.filter(field => only?.includes(field.name) ?? !names.includes(field.name));
	const words = all.find(field => field.name === by)?.schema.enum;
	const parse = words ? oneOf(`the ${by}`, words) : (text: string) => text;
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	if (question) {
		command.yesOption();
	}
	addFieldOptions(command, fields, parsers).does<{yes?: boolean}, [string]>(async (session, options, argument) => {
		const values = await readSecrets(fields, readFieldOptions(fields, options));
		const changes = verb === 'update' ? changesIn(values) : values;
		const found = find && (await find(session, argument));
		const named = found ? {id: found.id} : by && (await readArgument(session, names, kind, parse(argument)));
		const entered = {...changes, ...named} as InputOf<Input>;
		if (question) {
			await place.find(session);
			await session.confirm(await question(session, argument, found as Found), options.yes);
		}
		const input = complete ? await complete(session, entered) : entered;
		const result = await place.perform(session, input);
		await (typeof shows === 'function' ? shows(session, result, input) : session.one(shows, result));
	});
}

/** An unknown id stays as it was written, so that the operation refuses it. */
async function readArgument(
	session: Session,
	names: readonly string[],
	kind: Parameters<Session['idOf']>[0] | undefined,
	argument: string,
): Promise<object> {
	const id = kind && (await session.idOf(kind, argument));
	return id === undefined ? {[names.at(-1) as string]: argument} : {id};
}

/** Replaces `-` by what standard input has. A secret that is empty counts as absent. */
async function readSecrets(fields: readonly Field[], values: Readonly<Record<string, unknown>>): Promise<object> {
	const secrets = fields.filter(({name, isSecret}) => isSecret && Object.hasOwn(values, name));
	const entries = secrets.map(
		async ({name}) => [name, (await readSecret(String(values[name]))) || undefined] as const,
	);
	return defined({...values, ...Object.fromEntries(await Promise.all(entries))});
}

/** Returns the label and the text of each field, for people; `undefined` if the field is not set. */
export function fieldRows(fields: readonly Field[], values: object): Array<readonly [string, string | undefined]> {
	return fields.map(field => {
		const value = valueAt(values, field.name);
		const text = field.kind === 'flag' ? value && 'yes' : fieldText(field, value);
		return [lowerFirst(field.label), text ? String(text) : undefined] as const;
	});
}

/** Returns the fields of an input as lines of a single row. */
export function fieldColumns<Row>(input: TSchema, toValues: (row: Row) => object): Noun<Row>['fields'] {
	return listFields(input).map(field => ({
		name: lowerFirst(field.label),
		cell: row => fieldRows([field], toValues(row))[0]?.[1],
	}));
}
