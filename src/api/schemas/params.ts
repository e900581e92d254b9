import {Type} from './type.ts';

/** The `id` of a path. Any text: one that cannot be an id answers as an unknown id does. */
export function idParams(prefix: string) {
	return Type.Object({id: Type.String({description: `\`${prefix}_…\``})});
}
