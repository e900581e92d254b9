import {Ajv, type ErrorObject, type ValidateFunction} from 'ajv';
import type {FastifyRequest, FastifySchemaCompiler} from 'fastify';
import type {TSchema} from 'typebox';
import {isObject} from '../kit/exact-json.ts';
import type {Violation} from '../mail/api-error.ts';
import {apiError, bodyMissing} from '../mail/api-error.ts';
import {Type} from '../mail/type.ts';
import {variablesProblem} from '../send/schema.ts';
import {type FormatName, formats} from './formats.ts';

/** Returns the violations of a value, at most twenty; none if it is valid. It may remove `null`s from the value. */
type Check = (value: unknown) => readonly Violation[];

export const maxViolations = 20;
const maxFieldLength = 100;

/** Created on first use. All checks share them, and Ajv caches what it has compiled. */
let ajvs: readonly [quick: Ajv, thorough: Ajv] | undefined;

/**
 * Creates the check of a schema. It stops at the first error. Only if it finds one are oversized parts removed and the
 * value checked again for all errors: 700,000 entries in `cc` are one violation.
 */
export function compileCheck(schema: TSchema): Check {
	// Compiled on first use: compiling all schemas would slow down startup, and most routes never see an invalid value.
	let isValid: ValidateFunction | undefined;
	return value => {
		withoutNulls(schema as Schema, value);
		ajvs ??= [createAjv(false), createAjv(true)];
		const [quick, thorough] = ajvs;
		isValid ??= quick.compile(schema);
		return isValid(value) ? [] : findViolations(schema as Schema, value, thorough.compile(schema));
	};
}

/** Returns the validator of a part of a request, for Fastify. */
export function createValidator(schema: unknown, httpPart: string | undefined) {
	const check = compileCheck(schema as TSchema);
	return (value: unknown) => {
		if (httpPart === 'body' && value === null) {
			return {error: bodyMissing()};
		}
		const violations = [...(httpPart === 'querystring' ? readQuery(value) : []), ...check(value)];
		return violations.length === 0
			? {value}
			: {error: apiError('validation_failed', {violations: violations.slice(0, maxViolations)})};
	};
}

/** Normalizes the query in place and returns its violations. */
function readQuery(query: unknown): Violation[] {
	nest(query as Record<string, unknown>);
	return withoutRepeated(query);
}

/**
 * Converts `metadata[order_id]=1042` to an object of texts. Beside a plain `metadata` it stays as it is, and every
 * schema rejects it.
 */
function nest(query: Record<string, unknown>): void {
	const keys = Object.keys(query).filter(name => /^metadata\[.*\]$/s.test(name));
	if (keys.length > 0 && query.metadata === undefined) {
		query.metadata = Object.fromEntries(keys.map(name => [name.slice('metadata['.length, -1), query[name]]));
		for (const name of keys) {
			delete query[name];
		}
	}
}

// A parameter that appears twice arrives as an array. It is removed and reported as a violation.
function withoutRepeated(query: unknown): Violation[] {
	const values = query as Record<string, unknown>;
	const repeated = Object.keys(values).filter(name => Array.isArray(values[name]));
	for (const name of repeated) {
		values[name] = undefined;
	}
	return repeated.map(name => ({field: joinField('', name), message: 'must appear only once'}));
}

function findViolations(schema: Schema, value: unknown, validateAll: ValidateFunction): Violation[] {
	const violations: Violation[] = [];
	const pruned = withoutOversize(schema, value, '', violations);
	if (!validateAll(pruned)) {
		const reported = new Set(violations.map(violation => violation.field));
		for (const error of validateAll.errors ?? []) {
			const field = toFieldPath(error, pruned);
			// Each field has one violation: that it is too large, or else the first one.
			if (error.keyword !== 'propertyNames' && !reported.has(field)) {
				reported.add(field);
				violations.push({field, message: explain(error)});
			}
		}
	}
	return violations.slice(0, maxViolations);
}

function createAjv(allErrors: boolean): Ajv {
	const ajv = new Ajv({
		allErrors,
		verbose: allErrors,
		coerceTypes: false,
		removeAdditional: false,
		useDefaults: false,
		// Compiling the meta-schema takes longer than all our schemas. A test validates them against it.
		meta: false,
		validateSchema: false,
		formats: Object.fromEntries(
			Object.entries(formats).map(([name, format]) => [name, (text: string) => format(text) === null]),
		),
	});
	ajv.addKeyword({
		keyword: 'variables',
		type: 'object',
		schemaType: 'boolean',
		compile: () => (data: object) => variablesProblem(data) === null,
		errors: false,
	});
	// OpenAPI keywords for a query parameter that is an object.
	ajv.addVocabulary(['style', 'explode']);
	// Ajv's own keyword counts all characters, however long the text is.
	ajv.removeKeyword('maxLength');
	ajv.addKeyword({
		keyword: 'maxLength',
		type: 'string',
		schemaType: 'number',
		compile: (max: number) => (text: string) => isAtMost(text, max),
		errors: false,
	});
	return ajv;
}

function isAtMost(text: string, max: number): boolean {
	return text.length <= max || (text.length <= 2 * max && [...text].length <= max);
}

const types: Readonly<Record<string, string>> = {
	string: 'must be a string',
	boolean: 'must be true or false',
	integer: 'must be a whole number',
	number: 'must be a number',
	object: 'must be an object',
	array: 'must be an array',
};

/** Clauses that explain what is allowed. They never repeat what was sent. */
const explanations: Readonly<Record<string, (error: ErrorObject) => string>> = {
	required: () => 'is required',
	additionalProperties: () => 'is not a known field',
	type: ({params}) => types[params.type] ?? 'has the wrong type',
	maxLength: ({schema}) => `must be at most ${schema} characters long`,
	minLength: () => 'must not be empty',
	minItems: () => 'must not be empty',
	uniqueItems: () => 'must not contain duplicates',
	enum: ({schema}) => `must be one of ${(schema as string[]).join(', ')}`,
	format: ({schema, data}) => formats[schema as FormatName](data as string) ?? 'is not valid',
	variables: ({data}) => variablesProblem(data as object) ?? 'is not valid',
};

function explain(error: ErrorObject): string {
	return explanations[error.keyword]?.(error) ?? error.message ?? 'is not valid';
}

// `/attachments/0/content` → `attachments[0].content`. The caller chooses the name of an unknown field, so it is
// truncated and made safe to store.
function toFieldPath({instancePath, params}: ErrorObject, root: unknown): string {
	const names = instancePath === '' ? [] : instancePath.slice(1).split('/').map(unescapePointer);
	const lastName = params.missingProperty ?? params.additionalProperty;
	let field = '';
	let container = root;
	for (const name of lastName === undefined ? names : [...names, lastName]) {
		field = Array.isArray(container) ? `${field}[${name}]` : joinField(field, name);
		container = (container as Record<string, unknown> | undefined)?.[name];
	}
	return field === '' ? 'body' : field;
}

/** Returns the path of the field `name` inside `path`. */
export function joinField(path: string, name: string): string {
	const truncated = name.slice(0, maxFieldLength).replaceAll(/\p{Cs}/gu, '\ufffd');
	return path === '' ? truncated : `${path}.${truncated}`;
}

function unescapePointer(name: string): string {
	return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The keywords of JSON Schema that this file evaluates. */
type Schema = {
	readonly type?: string;
	readonly anyOf?: readonly Schema[];
	readonly properties?: Readonly<Record<string, Schema>>;
	readonly required?: readonly string[];
	readonly additionalProperties?: unknown;
	readonly maxProperties?: number;
	readonly items?: Schema;
	readonly maxItems?: number;
};

// Up to this many unknown fields are reported one by one. With more, the object as a whole is rejected.
const maxListedUnknown = 20;

/** Removes `null` from optional fields of strict objects, in place, unless the schema of the field allows `null`. */
function withoutNulls(schema: Schema, value: unknown): void {
	if (Array.isArray(value)) {
		if (schema.items?.properties && value.length <= (schema.maxItems ?? 0)) {
			for (const item of value) {
				withoutNulls(schema.items, item);
			}
		}
		return;
	}
	if (!isObject(value) || !schema.properties) {
		return;
	}
	for (const [name, property] of Object.entries(schema.properties)) {
		if (value[name] === null) {
			value[name] = property.anyOf?.some(({type}) => type === 'null') ? null : undefined;
		} else if (property.properties || property.items) {
			withoutNulls(property, value[name]);
		}
	}
}

/** Returns the value without the parts that have too many items or fields. Each such part becomes a violation. */
function withoutOversize(schema: Schema, value: unknown, path: string, violations: Violation[]): unknown {
	if (Array.isArray(value)) {
		if (schema.maxItems !== undefined && value.length > schema.maxItems) {
			violations.push({field: path || 'body', message: `must have at most ${schema.maxItems} items`});
			return undefined;
		}
		const {items} = schema;
		return items?.properties
			? value.map((item, index) => withoutOversize(items, item, `${path}[${index}]`, violations))
			: value;
	}
	return isObject(value) ? objectWithoutOversize(schema, value, path, violations) : value;
}

function objectWithoutOversize(
	schema: Schema,
	value: Record<string, unknown>,
	path: string,
	violations: Violation[],
): unknown {
	const {properties = {}, maxProperties} = schema;
	const names = Object.keys(value);
	const isStrict = schema.additionalProperties === false;
	const max =
		maxProperties ?? (isStrict ? Object.keys(properties).length + maxListedUnknown : Number.POSITIVE_INFINITY);
	if (names.length > max) {
		violations.push({
			field: path || 'body',
			message: isStrict ? 'has too many unknown fields' : `must have at most ${max} keys`,
		});
		return undefined;
	}
	if (!isStrict) {
		return value;
	}
	const toPath = (name: string) => (path === '' ? name : `${path}.${name}`);
	return Object.fromEntries(
		names.map(name => {
			const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
			return [name, property ? withoutOversize(property, value[name], toPath(name), violations) : value[name]];
		}),
	);
}

/** The body of a request without fields. */
export const emptyBody = Type.Object({}, {additionalProperties: false, examples: [{}]});

/** Creates the validator of routes with an optional body: no body means the same as an empty object. */
export const optionalBody: FastifySchemaCompiler<TSchema> = ({schema, httpPart}) => {
	const check = createValidator(schema, httpPart);
	return value => (httpPart === 'body' && value === null ? {value} : check(value));
};

/** Rejects a Content-Type without a body. Routes with an optional body must call this. */
export function checkBody({headers, body}: FastifyRequest): void {
	if (headers['content-type'] !== undefined && !body) {
		throw bodyMissing();
	}
}
