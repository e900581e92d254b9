import {Option} from 'commander';
import type {TSchema} from 'typebox';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import type {InputOf, Operation} from '../resources/operation.ts';
import {changesIn, none, orNull, refuse} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import type {Noun} from './terminal-text.ts';

// The options of a verb, from the fields of an operation's input (src/resources/fields.ts).

/** Parsers of fields that need more than their schema, by the name of the field. */
type Parsers = Readonly<Record<string, (text: string, previous: unknown) => unknown>>;

/** Adds an option for each field. An update, which requires no field, can also turn its flags off. */
export function addFieldOptions(command: CliCommand, fields: readonly Field[], parsers: Parsers = {}): CliCommand {
	for (const field of fields) {
		const option = toOption(field).makeOptionMandatory(field.isRequired);
		const parser = parsers[field.name] ?? (field.isList ? toListParser(field) : toParser(field));
		command.addOption(field.kind === 'flag' ? option : option.argParser(parser));
	}
	if (fields.every(({isRequired}) => !isRequired)) {
		for (const flag of fields.filter(({kind}) => kind === 'flag').map(toOption)) {
			command.option(`--no-${flag.name()}`, `turn off --${flag.name()}`);
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
	const long = option ?? name.replaceAll(/[_.]/g, '-');
	const placeholder = placeholders[kind] ?? long.split('-').at(-1);
	return kind === 'flag' || long.includes('<') ? `--${long}` : `--${long} <${placeholder}>`;
}

/** The description as a clause, with the choices and the default. The word `none` stands for `null` here. */
function toHelp({description, isList, schema, default: initial}: Field): string {
	const clause = lowerFirst(description.replaceAll('`null`', none).replaceAll('`', '').replace(/\.$/, ''));
	return [
		schema.enum ? `${clause} (${schema.enum.join(', ')})` : clause,
		...(isList ? ['repeatable, or separated by commas'] : []),
		...(initial === undefined ? [] : [`default: ${initial}`]),
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

type Verb<Input, Result> = {
	readonly sample: string;
	/** The field that an argument names instead of an option, such as the object to change; `id|code` for either. */
	readonly by?: string;
	/** The kind of the id that the argument may be, whole or as a unique prefix. */
	readonly kind?: Parameters<Session['idOf']>[0];
	/** Returns the id that the argument stands for, where it is no field. Throws `Refused` or `CliError`. */
	readonly find?: (session: Session, argument: string) => Promise<object>;
	/** The names of the fields that are options, if not all of them are. */
	readonly only?: readonly string[];
	readonly parsers?: Parsers;
	/** Asks for confirmation before the argument's object is destroyed. The verb has `--yes` then. */
	readonly question?: (session: Session, argument: string) => string | Promise<string>;
	/** Checks and completes what was entered. Throws `Refused` or `CliError`. */
	readonly complete?: (session: Session, input: Input) => Promise<Input>;
	readonly shows: Noun<Result> | ((session: Session, result: Result, input: Input) => void | Promise<void>);
};

/**
 * Adds the verb that performs an operation and shows its result. Its options are the fields of the operation. `update`
 * requires at least one of them.
 */
export function operationVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	operation: Operation<Input, Result>,
	{sample, by, kind, find, only, parsers, question, complete, shows}: Verb<InputOf<Input>, Result>,
): void {
	const {name, summary = '', input: schema} = operation;
	const [, verb = ''] = name.split(' ');
	const names = find ? ['id'] : (by?.split('|') ?? []);
	const isOption = (field: string) => only?.includes(field) ?? !names.includes(field);
	const fields = listFields(schema).filter(field => isOption(field.name));
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	if (question) {
		command.yesOption();
	}
	addFieldOptions(command, fields, parsers).does<{yes?: boolean}, [string]>(async (session, options, argument) => {
		const values = readFieldOptions(fields, options);
		const found = find ? await find(session, argument) : await readArgument(session, names, kind, argument);
		const entered = {...(verb === 'update' ? changesIn(values) : values), ...found} as InputOf<Input>;
		if (question) {
			await session.workspace();
			await session.confirm(await question(session, argument), options.yes);
		}
		const input = complete ? await complete(session, entered) : entered;
		const result = await session.perform(operation, input);
		await (typeof shows === 'function' ? shows(session, result, input) : session.one(shows, result));
	});
}

/** An unknown id stays as it was written, so that the operation refuses it. */
async function readArgument(
	session: Session,
	names: readonly string[],
	kind: Parameters<Session['idOf']>[0] | undefined,
	argument: string | undefined,
): Promise<object> {
	if (argument === undefined) {
		return {};
	}
	const id = kind && (await session.idOf(kind, argument));
	return id === undefined ? {[names.at(-1) as string]: argument} : {id};
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
