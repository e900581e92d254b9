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
type Parsers = Readonly<Record<string, (text: string) => unknown>>;

/** Adds an option for each field. An update, which requires no field, can also turn its flags off. */
export function addFieldOptions(command: CliCommand, fields: readonly Field[], parsers: Parsers = {}): CliCommand {
	for (const field of fields) {
		const option = toOption(field).makeOptionMandatory(field.isRequired);
		command.addOption(field.kind === 'flag' ? option : option.argParser(parsers[field.name] ?? toParser(field)));
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
		const value = orNull(valueAt(options, toOption(field).attributeName()));
		return [field.name, value === null && field.isList ? [] : value] as const;
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

/** The description as a clause, with the default. */
function toHelp({description, default: initial}: Field): string {
	const clause = lowerFirst(description.replaceAll('`', '').replace(/\.$/, ''));
	return initial === undefined ? clause : `${clause}; default: ${initial}`;
}

function toParser(field: Field): (text: string) => unknown {
	const flag = `--${toOption(field).name()}`;
	const words = field.isNullable || field.isList ? [none, ...(field.default === undefined ? [] : ['default'])] : [];
	const parse = (text: string) => {
		if (words.includes(text)) {
			return none;
		}
		const parsed = parseField(field, text);
		return parsed.ok ? parsed.value : refuse(flag, text, toFix(parsed.problem));
	};
	return Object.assign(parse, {choices: field.schema.enum});
}

/** Converts what is wrong to advice: `must be a size` to `use a size`. */
function toFix(problem: string): string {
	return /^must be /.test(problem) ? problem.replace(/^must be (?:one of )?/, 'use ') : `it ${problem}`;
}

type Verb<Result> = {
	readonly sample: string;
	/** The name of the argument, which stands for the object to change: a field, or what `find` reads. */
	readonly by?: string;
	/** Returns the part of the input that the argument stands for, such as an id. Throws `Refused` or `CliError`. */
	readonly find?: (session: Session, argument: string) => Promise<object>;
	/** The names of the fields that are options, if not all of them are. */
	readonly only?: readonly string[];
	/** Returns what to confirm before data is destroyed. The verb has the option `--yes` then. */
	readonly question?: (session: Session, argument: string) => string | Promise<string>;
	readonly shows: Noun<Result> | ((session: Session, result: Result, argument: string) => void | Promise<void>);
};

/** Adds the verb that performs an operation and shows its result. `update` requires at least one option. */
export function operationVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	operation: Operation<Input, Result>,
	{sample, by, find, only, question, shows}: Verb<Result>,
): void {
	const {name, summary = '', input} = operation;
	const [, verb = ''] = name.split(' ');
	const isOption = (field: string) => only?.includes(field) ?? (by === undefined || (field !== by && field !== 'id'));
	const fields = listFields(input).filter(field => isOption(field.name));
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	if (question) {
		command.yesOption();
	}
	addFieldOptions(command, fields).does<{yes?: boolean}, [string]>(async (session, options, argument) => {
		const values = readFieldOptions(fields, options);
		const entered = verb === 'update' ? changesIn(values) : values;
		const meant = by === undefined ? {} : find ? await find(session, argument) : {[by]: argument};
		if (question) {
			await session.workspace();
			await session.confirm(await question(session, argument), options.yes);
		}
		const result = await session.perform(operation, {...entered, ...meant} as InputOf<Input>);
		await (typeof shows === 'function' ? shows(session, result, argument) : session.one(shows, result));
	});
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
