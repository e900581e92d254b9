import {Option} from 'commander';
import type {TSchema} from 'typebox';
import {snakeCase} from '../kit/text.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import type {InputOf, Operation} from '../resources/operation.ts';
import {changesIn, none, orNull, refuse} from './options.ts';
import type {CliCommand} from './program.ts';
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

/** The description as a clause, with the default. */
function toHelp({description, default: initial}: Field): string {
	const clause = lowerFirst(description.replaceAll('`', '').replace(/\.$/, ''));
	return initial === undefined ? clause : `${clause}; default: ${initial}`;
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

/** Converts what is wrong to advice: `must be a size` to `use a size`. */
function toFix(problem: string): string {
	return /^must be /.test(problem) ? problem.replace(/^must be (?:one of )?/, 'use ') : `it ${problem}`;
}

type Verb<Result> = {
	readonly sample: string;
	/** The field that an argument names instead of an option: the object to change. */
	readonly by?: string;
	readonly shows: Noun<Result>;
};

/** Adds the verb that performs an operation and shows its result. */
export function operationVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	operation: Operation<Input, Result>,
	{sample, by, shows}: Verb<Result>,
): void {
	const {name, summary = '', input} = operation;
	const [, verb = ''] = name.split(' ');
	const fields = listFields(input).filter(field => field.name !== by);
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	addFieldOptions(command, fields).does<object, [string | undefined]>(async (session, options, key) => {
		const values = readFieldOptions(fields, options);
		const requested = by === undefined ? values : {...changesIn(values), [by]: key};
		session.one(shows, await session.perform(operation, requested as InputOf<Input>));
	});
}

/** Returns the label and the text of each field, for people; `undefined` if the field is not set. */
export function fieldRows(fields: readonly Field[], values: object): Array<readonly [string, string | undefined]> {
	return fields.map(field => {
		const value = valueAt(values, field.name);
		const isSet = value !== null && value !== undefined && value !== false;
		const text = field.kind === 'flag' ? 'yes' : fieldText(field, value);
		return [lowerFirst(field.label), isSet ? text : undefined] as const;
	});
}

/** Returns the fields of an input as lines of a single row. */
export function fieldColumns<Row>(input: TSchema, toValues: (row: Row) => object): Noun<Row>['fields'] {
	return listFields(input).map(field => ({
		name: lowerFirst(field.label),
		cell: row => fieldRows([field], toValues(row))[0]?.[1],
	}));
}
