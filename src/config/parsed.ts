/** What a parser makes of a setting's text: the ready value, or what would be allowed (a clause after `name="text" …: `). */
export type Parsed<T> = {readonly ok: true; readonly value: T} | {readonly ok: false; readonly allowed: string};
/** Pure and total: never throws. `cwd` is what relative paths start from. */
export type Parser<T> = (text: string, cwd: string) => Parsed<T>;

export function value<T>(parsed: T): Parsed<T> {
	return {ok: true, value: parsed};
}

export function allowed<T>(text: string): Parsed<T> {
	return {ok: false, allowed: text};
}
