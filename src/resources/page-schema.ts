import type {TSchema} from 'typebox';
import {Type} from '../mail/type.ts';

/** A time in a response. */
export const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});

/** A text in a response that may be `null`. */
export const textOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], {description});

/** The `id` parameter of a path. It accepts any text: a malformed id gets the same response as an unknown one. */
export function idParams(prefix: string) {
	return Type.Object({id: Type.String({description: `\`${prefix}_…\``})});
}

/** A page of a list, with the example of its item. */
export function pageSchema(item: TSchema) {
	const {examples = []} = item as {examples?: readonly unknown[]};
	return Type.Object(
		{data: Type.Array(item), next_cursor: textOrNull('`null` on the last page.')},
		{examples: [{data: examples, next_cursor: null}]},
	);
}
