import {Option} from 'commander';
import type {TSchema} from 'typebox';
import {defined} from '../kit/collections.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import type {InputOf, Operation} from '../resources/operation.ts';
import {readSecret} from './files.ts';
import {changesIn, findNamed, none, oneOf, orNull, refuse} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import type {Noun} from './terminal-text.ts';

// The options of a verb, from the fields of an operation's input (src/resources/fields.ts).

type Parser = ((text: string) => unknown) & {readonly choices?: readonly string[] | undefined};

/** Parsers of fields that need more than their schema, by the name of the field. */
type Parsers = Readonly<Record<string, Parser>>;

/** Adds an option for each field. An update can also turn its flags off. */
export function addFieldOptions(command: CliCommand, fields: readonly Field[], parsers: Parsers = {}): CliCommand {
	for (const field of fields) {
		const parser = parsers[field.name] ?? toParser(field);
		const option = toOption(field, parser.choices).makeOptionMandatory(field.isRequired);
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

const toOption = (field: Field, words?: readonly string[]): Option => new Option(toFlags(field), toHelp(field, words));

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

/** The description as a clause, with the words to choose from and the default. */
function toHelp({description, default: initial, isSecret}: Field, words: readonly string[] = []): string {
	return [
		lowerFirst(description.replace(/\.$/, '')),
		...(words.length === 0 ? [] : [words.join(', ')]),
		...(initial === undefined ? [] : [`default: ${initial}`]),
		...(isSecret ? ['- reads it from standard input'] : []),
	].join('; ');
}

function toParser(field: Field): Parser {
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
	/** The field that an argument sets instead of an option, such as the object to change. */
	readonly by?: string;
	/** Lists the objects that the argument may name by the prefix of their ids (`findNamed`). */
	readonly among?: Parameters<typeof findNamed>[2];
	readonly parsers?: Parsers;
	readonly shows: Noun<Result> | ((session: Session, result: Result) => void | Promise<void>);
};

/** Adds the verb that performs an operation in the selected workspace and shows its result. */
export function operationVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	operation: Operation<Input, Result>,
	verb: Verb<Result>,
): void {
	addVerb(noun, operation, verb, (session, input) => session.perform(operation, input));
}

/** Adds the verb of an operation that affects the whole installation unless `--workspace` is set. */
export function installationVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	operation: Operation<Input, Result, string | null>,
	verb: Verb<Result>,
): void {
	addVerb(noun, operation, verb, (session, input) => session.performAnywhere(operation, input));
}

function addVerb<Input extends TSchema, Result>(
	noun: CliCommand,
	{name, summary = '', input: schema}: Pick<Operation<Input, Result>, 'name' | 'summary' | 'input'>,
	{sample, by, among, parsers, shows}: Verb<Result>,
	perform: (session: Session, input: InputOf<Input>) => Promise<Result>,
): void {
	const [, verb = ''] = name.split(' ');
	const all = listFields(schema);
	const fields = all.filter(field => field.name !== by);
	const words = all.find(field => field.name === by)?.schema.enum;
	const parse = words ? oneOf(`the ${by}`, words) : (text: string) => text;
	const command = noun.verb(by === undefined ? verb : `${verb} <${by}>`, summary).sample(sample);
	addFieldOptions(command, fields, parsers).does<object, [string]>(async (session, options, text) => {
		const values = await readSecrets(fields, readFieldOptions(fields, options));
		const changes = verb === 'update' ? changesIn(values) : values;
		const key = by && {[by]: among ? (await findNamed(session, noun.name(), among, text)).id : parse(text)};
		const result = await perform(session, {...changes, ...key} as InputOf<Input>);
		await (typeof shows === 'function' ? shows(session, result) : session.one(shows, result));
	});
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
