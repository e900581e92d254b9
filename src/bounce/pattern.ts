import {unaccented} from './plain-text.ts';

/** A regular expression in the form in which rules try it on plain texts; or its fault and the fix. */
export type Pattern = {readonly ok: true; readonly source: string} | {readonly ok: false; readonly problem: string};

/** A text of 4,096 characters is tried from each of them. */
const mostWays = 10_000;

/**
 * Reads one regular expression of a rules file. Refuses one that could be slow, and one that can never match, as rules
 * see texts in their plain form (`plainText`). Accents may be written or left out: texts have none.
 */
export function patternOf(written: string): Pattern {
	const spelled = withoutCodes(written);
	const problem = compileProblem(written) ?? formProblem(spelled) ?? timeProblem(bareOf(spelled));
	if (problem !== null) {
		return {ok: false, problem};
	}
	const source = plainSource(spelled);
	const pattern = new RegExp(source, 'i');
	// Not `^$`: some hosts say nothing.
	return pattern.test('') && pattern.test('\0')
		? {ok: false, problem: 'holds for every text: name what must stand there'}
		: {ok: true, source};
}

/** The same of one that is known to be good: nothing is checked. */
export function goodPatternOf(written: string): Pattern {
	return {ok: true, source: plainSource(withoutCodes(written))};
}

function plainSource(spelled: string): string {
	return unaccented(spelled.replaceAll('ß', '(?:ss)'));
}

/** `\u00e9`, `\xe9` and `\é` as `é`, from which the accent can be taken. */
function withoutCodes(written: string): string {
	return written.replace(/\\(?:u([\da-f]{4})|x([\da-f]{2})|.)/gis, (code, long?: string, short?: string) => {
		const hex = long ?? short;
		const letter = hex === undefined ? code.slice(1) : String.fromCharCode(Number.parseInt(hex, 16));
		return letter > '\x7f' ? letter : code;
	});
}

function compileProblem(source: string): string | null {
	try {
		new RegExp(source, 'i');
		return null;
	} catch (error) {
		return `is not a regular expression: ${(error as Error).message.replace(/^.*\/i?: /s, '')}`;
	}
}

const escapesAndClasses = /\\(.)|\[(?:\\.|[^\\\]])*\]/gs;
const range = /(\\.|[^\\])-(\\.|[^\\])/gsu;

/** What a plain text cannot hold, and what would mean something else once accents are gone or beside other patterns. */
function formProblem(source: string): string | null {
	const [code] =
		/\\(?:u(?![\da-fA-F]{4})|x(?![\da-fA-F]{2})|[^\WbBdDsSwWux])/.exec(source.replaceAll('\\\\', '')) ?? [];
	if (code !== undefined) {
		return `has ${code}: of letters and digits only \\b \\B \\d \\D \\s \\S \\w \\W are known here`;
	}
	if (/\(\?<(?![=!])/.test(bareOf(source))) {
		return 'names a group: nobody asks for it, use (?:…)';
	}
	const classes = (source.match(escapesAndClasses) ?? []).filter(one => one.startsWith('['));
	for (const [whole, from = '', to = ''] of classes.flatMap(one => [...one.slice(1, -1).matchAll(range)])) {
		if (unaccented(from + to) !== from + to) {
			return `has ${whole}, and rules see letters without accents: use a-z, or name them`;
		}
	}
	if (classes.includes('[]')) {
		return 'has [], which nothing matches: write \\[ and \\] for the signs';
	}
	if (classes.some(one => one.includes('ß'))) {
		return 'has ß in [], and rules see ss: use (?:ss|…)';
	}
	const words = source.replace(escapesAndClasses, (_, sign = 'a') => (/\W/.test(sign) ? sign : '.'));
	if (words.includes('@')) {
		return 'has @: rules see no addresses, leave it out';
	}
	if (/[a-z]_\??[a-z]/i.test(unaccented(words))) {
		return 'has _ between letters, where rules see a blank: write a blank';
	}
	return /\s{2}|[^\S ]/.test(words) ? 'has more than one blank, or another one: write one blank' : null;
}

/** The pattern with letters in the place of classes and of what is escaped. */
function bareOf(source: string): string {
	return source.replace(/\\./gs, 'a').replace(/\[[^\]]*\]/g, 'a');
}

/** Time must not grow faster than the text: what repeats without a bound, or repeats repetitions, is refused. */
function timeProblem(bare: string): string | null {
	if (/[*+]|\{\d+,\}/.test(bare)) {
		return 'repeats without a bound: use {0,40} instead of * or +';
	}
	if (repeatsChoice(bare)) {
		return 'repeats what repeats or has a choice: spell it out';
	}
	return waysOf(bare) > mostWays ? `repeats too often in all: the product of its bounds is over ${mostWays}` : null;
}

/** Whether a repeated group is ambiguous: it has a repetition, an alternative or an option. */
function repeatsChoice(bare: string): boolean {
	const open: boolean[] = [];
	for (const [token] of bare.matchAll(/\(\??|\)(?:\{\d+,?\d*\})?|\{\d+,?\d*\}|[|?]/g)) {
		if (token.startsWith('(')) {
			open.push(false);
		} else if (token.startsWith(')')) {
			const holds = open.pop() ?? false;
			const repeats = token.length > 1;
			if (holds && repeats) {
				return true;
			}
			if (open.length > 0 && (holds || repeats)) {
				open[open.length - 1] = true;
			}
		} else if (open.length > 0) {
			open[open.length - 1] = true;
		}
	}
	return false;
}

/** The number of partitions of a text among its repetitions, at most. */
function waysOf(bare: string): number {
	const bounds = [...bare.matchAll(/\{(\d+)(?:,(\d+))?\}/g)].map(([, least, most]) => Number(most ?? least));
	return bounds.reduce((product, bound) => product * Math.max(1, bound), 1);
}
