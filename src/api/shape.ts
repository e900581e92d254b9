import type {Violation} from '../mail/api-error.ts';

/** The part of JSON Schema that is read here. */
export type Schema = {
	readonly type?: string;
	readonly anyOf?: readonly Schema[];
	readonly properties?: Readonly<Record<string, Schema>>;
	readonly required?: readonly string[];
	readonly additionalProperties?: unknown;
	readonly maxProperties?: number;
	readonly items?: Schema;
	readonly maxItems?: number;
};

// So many unknown fields are named one by one; with more the object as a whole is refused.
const namedUnknown = 20;

/**
 * Takes `null` for an optional field of a strict object as its absence, unless the field's schema names null; changes the
 * value in place.
 */
export function withoutNulls(schema: Schema, value: unknown): void {
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

/** The value without its parts that have too many items or fields, each of which becomes a violation. */
export function withoutOversize(schema: Schema, value: unknown, path: string, found: Violation[]): unknown {
	if (Array.isArray(value)) {
		if (schema.maxItems !== undefined && value.length > schema.maxItems) {
			found.push({field: path || 'body', message: `must have at most ${schema.maxItems} items`});
			return undefined;
		}
		const {items} = schema;
		return items?.properties ? value.map((one, n) => withoutOversize(items, one, `${path}[${n}]`, found)) : value;
	}
	return isObject(value) ? objectWithoutOversize(schema, value, path, found) : value;
}

function objectWithoutOversize(
	schema: Schema,
	value: Record<string, unknown>,
	path: string,
	found: Violation[],
): unknown {
	const {properties = {}, maxProperties} = schema;
	const names = Object.keys(value);
	const strict = schema.additionalProperties === false;
	const most = maxProperties ?? (strict ? Object.keys(properties).length + namedUnknown : Number.POSITIVE_INFINITY);
	if (names.length > most) {
		found.push({
			field: path || 'body',
			message: strict ? 'has too many unknown fields' : `must have at most ${most} keys`,
		});
		return undefined;
	}
	if (!strict) {
		return value;
	}
	const inside = (name: string) => (path === '' ? name : `${path}.${name}`);
	return Object.fromEntries(
		names.map(name => {
			const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
			return [name, property ? withoutOversize(property, value[name], inside(name), found) : value[name]];
		}),
	);
}

function isObject(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
