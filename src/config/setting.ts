import {type Parser, value} from './parsers.ts';

/** What defaults may depend on. */
export type Machine = {readonly hostname: string; readonly cpus: number; readonly terminal: boolean};

/** One setting, declared once: the loader, the pages and `config show` all read it. */
export type Setting<T> = {
	readonly name: string;
	/** One sentence, in Markdown. */
	readonly about: string;
	readonly parse: Parser<T>;
	/** The default as the operator would write it; null: no default. */
	readonly fallback: (machine: Machine) => string | null;
	/** The default as the pages name it. */
	readonly shownFallback: string;
	/** SIGHUP changes it in a running daemon. */
	readonly live: boolean;
	/** How a value that holds a secret is shown; null: it holds none. */
	readonly mask: ((text: string) => string) | null;
};

type Fallback = string | {readonly from: (machine: Machine) => string; readonly shown: string};
type Traits = {readonly live?: true; readonly mask?: (text: string) => string};

export function setting<T>(
	name: string,
	fallback: Fallback,
	parse: Parser<T>,
	about: string,
	traits: Traits = {},
): Setting<T> {
	const {from, shown} = typeof fallback === 'string' ? {from: () => fallback, shown: `\`${fallback}\``} : fallback;
	return {name, about, parse, fallback: from, shownFallback: shown, live: false, mask: null, ...traits};
}

/** A setting that is null unless given; the page says what holds then. */
export function optional<T>(
	name: string,
	shownFallback: string,
	parse: Parser<T>,
	about: string,
	traits: Traits = {},
): Setting<T | null> {
	return {name, about, parse, fallback: () => null, shownFallback, live: false, mask: null, ...traits};
}

/** A list that is empty unless given. */
export function optionalList<T>(
	name: string,
	shown: string,
	parse: Parser<readonly T[]>,
	about: string,
	traits: Traits = {},
): Setting<readonly T[]> {
	const orEmpty: Parser<readonly T[]> = (text, cwd) => (text === '' ? value([]) : parse(text, cwd));
	return setting(name, {from: () => '', shown}, orEmpty, about, traits);
}
