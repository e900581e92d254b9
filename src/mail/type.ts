import type Typebox from 'typebox';

type Options = Readonly<Record<string, unknown>>;
type Schema = object;

const builders = {
	String: (options?: Options) => ({type: 'string', ...options}),
	Integer: (options?: Options) => ({type: 'integer', ...options}),
	Boolean: (options?: Options) => ({type: 'boolean', ...options}),
	Null: (options?: Options) => ({type: 'null', ...options}),
	Unknown: (options?: Options) => ({...options}),
	Literal: (value: string | number | boolean, options?: Options) => ({type: typeof value, const: value, ...options}),
	Enum: (values: readonly string[], options?: Options) => ({enum: values, ...options}),
	Array: (items: Schema, options?: Options) => ({type: 'array', items, ...options}),
	Union: (anyOf: readonly Schema[], options?: Options) => ({anyOf, ...options}),
	/** A record of strings. */
	Record: (_key: Schema, value: Schema) => ({type: 'object', patternProperties: {'^.*$': value}}),
	Object(properties: Readonly<Record<string, Schema>>, options?: Options) {
		const required = Object.keys(properties).filter(
			name => !Object.hasOwn(properties[name] as Schema, '~optional'),
		);
		return {type: 'object', ...(required.length > 0 && {required}), properties, ...options};
	},
	// Not enumerable, because the mark is not part of the schema.
	Optional: (schema: Schema) => Object.defineProperty({...schema}, '~optional', {value: true}),
};

/**
 * The typebox builders that mailctl's schemas use, with typebox's types. Loading the library itself takes 373 modules
 * and a tenth of a second at each start, although the results here are plain JSON Schema.
 */
export const Type = builders as unknown as Pick<typeof Typebox, keyof typeof builders>;
