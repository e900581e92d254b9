import {Option} from 'commander';
import type {TSchema} from 'typebox';
import {snakeCase} from '../kit/text.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import {none, orNull, refuse} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Noun} from './terminal-text.ts';

// The options of a verb, from the fields of an operation's input (src/resources/fields.ts).

/** Parsers of fields that need more than their schema, by the name of the field. */
export type Parsers = Readonly<Record<string, (text: string, previous: unknown) => unknown>>;

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

/** Returns an option with a placeholder for its value, such as `--monthly-quota <n>`; a flag has none. */
function toFlags({name, kind, option}: Field): string {
	const long = option ?? snakeCase(name).replaceAll(/[_.]/g, '-');
	const placeholder = placeholders[kind] ?? long.split('-').at(-1);
	return kind === 'flag' || long.includes('<') ? `--${long}` : `--${long} <${placeholder}>`;
}

const maxListedChoices = 12;

/** Returns the description as a clause, with the choices and the default. On the command line, `none` means `null`. */
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
	const clearing = field.isNullable ? [none, ...(field.default === undefined ? [] : ['default'])] : [];
	const parse = (text: string) => {
		if (clearing.includes(text)) {
			return none;
		}
		const parsed = parseField(field, text);
		return parsed.ok ? parsed.value : refuse(flag, text, toFix(parsed.problem));
	};
	return Object.assign(parse, {choices: field.schema.enum});
}

/** Returns the parser of a list, with commas or an option per value. `none` clears a list that may be empty. */
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

/** Converts a problem to a fix: `must be a size` to `use a size`. */
function toFix(problem: string): string {
	return /^must be /.test(problem) ? problem.replace(/^must be (?:one of )?/, 'use ') : `it ${problem}`;
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
