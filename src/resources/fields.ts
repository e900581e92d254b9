import type {TObject, TSchema} from 'typebox';
import {size as sizeParser} from '../config/parsers.ts';
import {snakeCase} from '../kit/text.ts';
import {durationText, parseDuration} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {type FormatName, formats} from './formats.ts';

/** What people need to know about a field beyond its schema. */
type Annotation = {
	/** The name that people see, a noun phrase. By default, it is derived from the name of the property. */
	readonly label?: string;
	/** The help text, in whole sentences. It becomes the description of the schema, so that the API has it too. */
	readonly description?: string;
	/** The help text for people, where the description is about JSON. */
	readonly help?: string;
	/** The command-line option, if it cannot be derived from the name of the property: `pool <name>`. */
	readonly option?: string;
	/** The unit of an integer that people write with a suffix, such as `36h` or `10MiB`. */
	readonly unit?: 'seconds' | 'octets';
	/** What applies while the field is `null` or absent. On the command line, `default` clears a nullable field. */
	readonly default?: string;
	/** What each of the choices means, as a clause. */
	readonly meanings?: Readonly<Record<string, string>>;
	/** Whether a command can read the value from standard input, which keeps it out of the list of processes. */
	readonly isSecret?: true;
	/** Returns the form in which a valid text is stored. */
	readonly normalize?: (text: string) => string | null;
	/** The field `X-Mailctl-…` of the header of a submitted message that sets it. */
	readonly header?: string;
	/** Restricts the field on the dashboard to users of all workspaces. */
	readonly everywhere?: true;
	/** Why the dashboard does not offer the field. */
	readonly withoutForm?: string;
};

// JSON leaves out symbols, and a spread copies them. So the OpenAPI document does not show the annotations of a schema,
// and `Type.Optional` keeps them.
const annotated = Symbol('annotation');

/**
 * Defines a field of an operation's input. The options of a command, the inputs of a form and the fields of a document
 * for `mailctl apply` are derived from it. This file converts values from and to text, but displays nothing: that is up
 * to the command line (src/cli/field-options.ts) and the dashboard (src/dashboard/operation-form.ts).
 */
export function field<Schema extends TSchema>(schema: Schema, {description, ...annotation}: Annotation): Schema {
	const copy = {...schema, ...(description && {description}), [annotated]: annotation};
	return (Object.hasOwn(schema, '~optional') ? Type.Optional(copy) : copy) as Schema;
}

/** The schema of a field that may be absent, or `null` to clear it. */
export const optionalOrNull = <Schema extends TSchema>(schema: Schema) =>
	Type.Optional(Type.Union([schema, Type.Null()]));

/** The keywords of JSON Schema that a field may have. */
type Keywords = {
	readonly type?: string;
	readonly enum?: readonly string[];
	readonly format?: FormatName;
	readonly minimum?: number;
	readonly maximum?: number;
	readonly maxLength?: number;
	readonly items?: Keywords;
	readonly minItems?: number;
	readonly maxItems?: number;
	readonly anyOf?: readonly Keywords[];
	readonly description?: string;
	readonly properties?: Readonly<Record<string, Keywords>>;
	readonly [annotated]?: Omit<Annotation, 'description'>;
};

/** A field as the interfaces read it. */
export type Field = Omit<Annotation, 'label' | 'description' | 'help'> & {
	/** The path of the property: `branding.accent`. */
	readonly name: string;
	readonly label: string;
	readonly description: string;
	readonly kind: 'text' | 'long text' | 'choice' | 'flag' | 'count' | 'duration' | 'size';
	/** Whether it has several values, each of this kind and schema. */
	readonly isList: boolean;
	readonly minItems: number;
	readonly maxItems: number;
	readonly isRequired: boolean;
	readonly isNullable: boolean;
	/** The schema of a value that is not `null`. */
	readonly schema: Keywords;
};

/** Returns the fields of an input, with those of nested objects, in the order of the schema. */
export function listFields(input: TSchema, path = ''): Field[] {
	const {properties = {}, required = []} = input as Partial<TObject>;
	return Object.entries(properties as Readonly<Record<string, Keywords>>).flatMap(([property, keywords]) => {
		const name = `${path}${property}`;
		if (keywords.properties) {
			return listFields(keywords as TSchema, `${name}.`);
		}
		const {label = toLabel(property), help = keywords.description ?? '', ...annotation} = keywords[annotated] ?? {};
		const present = keywords.anyOf?.find(({type}) => type !== 'null') ?? keywords;
		const schema = present.items ?? present;
		return {
			...annotation,
			name,
			label,
			description: help,
			kind: toKind(schema, annotation),
			isList: present.items !== undefined,
			minItems: present.minItems ?? 0,
			maxItems: present.maxItems ?? Number.MAX_SAFE_INTEGER,
			isRequired: (required as readonly string[]).includes(property),
			isNullable: keywords.anyOf !== undefined,
			schema,
		};
	});
}

/** Converts `monthly_quota` or `monthlyQuota` to `Monthly quota`. */
function toLabel(property: string): string {
	return property.charAt(0).toUpperCase() + snakeCase(property.slice(1)).replaceAll('_', ' ');
}

/** Converts a label or a sentence for use inside a sentence. Abbreviations stay as they are. */
export const lowerFirst = (text: string): string => text.replace(/^[A-Z](?=[a-z ])/, letter => letter.toLowerCase());

function toKind({type, enum: words, format}: Keywords, {unit}: Pick<Annotation, 'unit'>): Field['kind'] {
	if (words) {
		return 'choice';
	}
	switch (type) {
		case 'boolean':
			return 'flag';
		case 'integer':
			return unit === 'seconds' ? 'duration' : unit === 'octets' ? 'size' : 'count';
		default:
			return format === 'description' ? 'long text' : 'text';
	}
}

/** A value, or the problem with the text as a clause: `must be …`. */
type Parsed = {readonly ok: true; readonly value: unknown} | {readonly ok: false; readonly problem: string};

const parseSize = sizeParser();

/** Reads a field, or one value of a list, from a text as an option or a form has it. */
export function parseField({kind, schema, normalize}: Field, text: string): Parsed {
	const {enum: words = [], format, minimum = 0, maximum = Number.MAX_SAFE_INTEGER, maxLength} = schema;
	const isInRange = (number: number) => number >= minimum && number <= maximum;
	switch (kind) {
		case 'flag':
			return {ok: true, value: text === 'true'};
		case 'choice':
			return accept(text, words.includes(text) ? null : `must be ${oneOf(words)}`);
		case 'count': {
			const number = /^\d{1,12}$/.test(text) ? Number(text) : -1;
			return accept(number, isInRange(number) ? null : `must be a whole number, ${minimum} to ${maximum}`);
		}
		case 'duration': {
			const seconds = Math.ceil((parseDuration(text) ?? -1000) / 1000);
			const problem =
				seconds > maximum
					? `must be at most ${durationText(maximum * 1000)}`
					: 'must be a duration such as 90s, 5m, 36h or 4d';
			return accept(seconds, isInRange(seconds) ? null : problem);
		}
		case 'size': {
			const size = parseSize(text, '');
			const octets = size.ok ? size.value : -1;
			const isTooLarge = octets > maximum;
			const problem = isTooLarge
				? `must be at most ${sizeText(maximum)}`
				: 'must be a size such as 512KiB or 10MiB';
			return accept(octets, isInRange(octets) ? null : problem);
		}
		default: {
			const problem = format ? formats[format](text) : null;
			const isTooLong = maxLength !== undefined && text.length > maxLength;
			return accept(
				problem === null && normalize ? (normalize(text) ?? text) : text,
				isTooLong ? `must be at most ${maxLength} characters long` : problem,
			);
		}
	}
}

const oneOf = (words: readonly string[]): string =>
	words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`;

const accept = (value: unknown, problem: string | null): Parsed =>
	problem === null ? {ok: true, value} : {ok: false, problem};

/** Writes a value as a text that `parseField` reads, and a list with commas. */
export function fieldText({kind}: Pick<Field, 'kind'>, value: unknown): string {
	if (value === null || value === undefined) {
		return '';
	}
	if (Array.isArray(value)) {
		return value.map(item => fieldText({kind}, item)).join(', ');
	}
	switch (kind) {
		case 'duration':
			return durationText(Number(value) * 1000);
		case 'size':
			return sizeText(Number(value));
		default:
			return String(value);
	}
}

const units: ReadonlyArray<readonly [string, number]> = [
	['GiB', 1024 ** 3],
	['MiB', 1024 ** 2],
	['KiB', 1024],
	['', 1],
];

function sizeText(octets: number): string {
	const [unit, length] = units.find(([, length]) => octets % length === 0) ?? ['', 1];
	return `${octets / length}${unit}`;
}

/** Returns the value at a path such as `branding.accent`. */
export function valueAt(values: object, name: string): unknown {
	return name.split('.').reduce<unknown>((value, part) => Object(value)[part], values);
}

/** Builds an input from values at their paths. */
export function toInput<Input extends object>(entries: ReadonlyArray<readonly [name: string, value: unknown]>): Input {
	const input: Record<string, unknown> = {};
	for (const [name, value] of entries) {
		const [outer = '', inner] = name.split('.');
		input[outer] = inner === undefined ? value : {...(input[outer] as object | undefined), [inner]: value};
	}
	return input as Input;
}

/** Returns a valid input with every text in the form in which it is stored. */
export function normalized<Input extends object>(fields: readonly Field[], input: Input): Input {
	const changed = fields.flatMap(({name, normalize}) => {
		const value = valueAt(input, name);
		return value === undefined
			? []
			: [[name, typeof value === 'string' ? (normalize?.(value) ?? value) : value] as const];
	});
	return {...input, ...toInput<Input>(changed)};
}
