import type {TSchema} from 'typebox';
import {Type} from '../../mail/type.ts';

/** A time of an answer. */
export const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});

/** A text of an answer that may be missing. */
export const textOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], {description});

/** The `id` of a path. Any text: one that cannot be an id answers as an unknown id does. */
export function idParams(prefix: string) {
	return Type.Object({id: Type.String({description: `\`${prefix}_…\``})});
}

/** A page of a list, with the item's own example. */
export function pageOf(item: TSchema) {
	const {examples = []} = item as {examples?: readonly unknown[]};
	return Type.Object(
		{
			data: Type.Array(item),
			next_cursor: textOrNull('Null on the last page.'),
		},
		{examples: [{data: examples, next_cursor: null}]},
	);
}
