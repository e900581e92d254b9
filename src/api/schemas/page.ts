import type {TSchema} from 'typebox';
import {Type} from './type.ts';

/** A page of a list, with the item's own example. */
export function pageOf(item: TSchema) {
	const {examples = []} = item as {examples?: readonly unknown[]};
	return Type.Object(
		{
			data: Type.Array(item),
			next_cursor: Type.Union([Type.String(), Type.Null()], {description: 'Null on the last page.'}),
		},
		{examples: [{data: examples, next_cursor: null}]},
	);
}
