import test from 'ava';
import fc from 'fast-check';
import TheirType from 'typebox';
import {Type} from '../../src/mail/type.ts';

/** Builds a schema with either library. */
type Build = (type: typeof Type) => object;

const options = fc.option(fc.record({description: fc.string(), minLength: fc.nat()}, {requiredKeys: []}), {
	nil: undefined,
});
const simple = fc.oneof(
	fc.constantFrom('String', 'Integer', 'Boolean', 'Null', 'Unknown').chain(name =>
		options.map(
			(given): Build =>
				type =>
					(type[name as 'String'] as (given?: object) => object)(given),
		),
	),
	fc.oneof(fc.string(), fc.integer(), fc.boolean()).map(
		(value): Build =>
			type =>
				type.Literal(value),
	),
	fc.array(fc.string(), {minLength: 1}).map(
		(values): Build =>
			type =>
				type.Enum(values),
	),
);
const {schema} = fc.letrec<{schema: Build}>(tie => {
	const inner = tie('schema');
	const build = (make: (type: typeof Type, parts: readonly object[]) => object, parts: readonly Build[]): Build => {
		return type =>
			make(
				type,
				parts.map(part => part(type)),
			);
	};
	return {
		schema: fc.oneof(
			{maxDepth: 4},
			simple,
			fc
				.tuple(inner, options)
				.map(([item, given]) => build((type, [one]) => type.Array(one as never, given), [item])),
			fc
				.tuple(fc.array(inner, {minLength: 1, maxLength: 3}), options)
				.map(([parts, given]) => build((type, all) => type.Union([...all] as never, given), parts)),
			inner.map(value => build((type, [one]) => type.Record(type.String(), one as never), [value])),
			fc.tuple(fc.dictionary(fc.string(), fc.tuple(inner, fc.boolean()), {maxKeys: 4}), options).map(
				([properties, given]): Build =>
					type => {
						const made = Object.entries(properties).map(([name, [part, isOptional]]) => {
							const one = part(type) as never;
							return [name, isOptional ? type.Optional(one) : one];
						});
						return type.Object(Object.fromEntries(made), given);
					},
			),
		),
	};
});

test('our builders create the same schemas as those of TypeBox', t => {
	fc.assert(
		fc.property(schema, build => {
			t.is(JSON.stringify(build(Type)), JSON.stringify(build(TheirType as unknown as typeof Type)));
		}),
	);
});
