import {isObject, type JsonObject, stoppedAt} from '../kit/exact-json.ts';
import type {BounceRule} from './bounce.ts';
import {unaccented} from './classify-reply.ts';
import {type BounceCategory, bounceCategories, type Phase, phases} from './outcome.ts';

export type RuleTable =
	| {readonly ok: true; readonly rules: readonly BounceRule[]}
	/** Each starts with a path: `rules[3] (full-552).when.text: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

/** Reports a problem at a path. */
type Refuse = (path: string, problem: string) => void;
type ReadPattern = (pattern: string) => Pattern;

const maxRules = 1000;
const maxPatternLength = 8000;
const conditions = ['class', 'code', 'enhanced', 'phase', 'host', 'address', 'text', 'unless'];
const ruleFields = ['name', 'why', 'when', 'category'];

/**
 * Parses a table of bounce rules (docs/reference/bounces.md) and collects every problem in it.
 *
 * @param read reads a pattern; those of the shipped table are checked by a test instead, because checking them takes a
 * tenth of the daemon's startup
 */
export function parseRuleTable(text: string, read: ReadPattern = parsePattern): RuleTable {
	const problems: string[] = [];
	const refuse: Refuse = (path, problem) => problems.push(`${path}: ${problem}`);
	const rules = parseRules(text, read, refuse);
	return problems.length > 0 ? {ok: false, problems} : {ok: true, rules};
}

/** Puts custom rules first. A custom rule replaces the shipped one with the same name. */
export function withOwnRules(custom: readonly BounceRule[], shipped: readonly BounceRule[]): BounceRule[] {
	const names = new Set(custom.map(({name}) => name));
	return [...custom, ...shipped.filter(({name}) => !names.has(name))];
}

function parseRules(text: string, read: ReadPattern, refuse: Refuse): BounceRule[] {
	const file = parseJsonText(text, refuse);
	if (file === undefined) {
		return [];
	}
	if (!isObject(file) || !Array.isArray(file.rules)) {
		refuse('the file', 'is not a JSON object with a list `rules`');
		return [];
	}
	checkFields('the file', file, ['rules', '$comment'], refuse);
	if (file.rules.length > maxRules) {
		refuse('rules', `has ${file.rules.length} entries, use no more than ${maxRules}`);
		return [];
	}
	const names = new Set<string>();
	return file.rules.flatMap((entry: unknown, index) => parseRule(entry, `rules[${index}]`, names, read, refuse));
}

function parseJsonText(text: string, refuse: Refuse): unknown {
	try {
		return JSON.parse(text) as unknown;
	} catch (error) {
		refuse('the file', `is not JSON${stoppedAt(error, text)}`);
		return undefined;
	}
}

function parseRule(entry: unknown, path: string, names: Set<string>, read: ReadPattern, refuse: Refuse): BounceRule[] {
	if (!isObject(entry)) {
		refuse(path, 'is not an object');
		return [];
	}
	const {name, category, when} = entry;
	if (typeof name !== 'string' || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name)) {
		refuse(`${path}.name`, 'use 1 to 64 lowercase letters, digits, dots, - and _');
		return [];
	}
	const rulePath = `${path} (${name})`;
	if (names.has(name)) {
		refuse(rulePath, 'another rule has this name');
	}
	names.add(name);
	checkFields(rulePath, entry, ruleFields, refuse);
	const validCategory = isCategory(category) ? category : null;
	if (validCategory === null) {
		refuse(`${rulePath}.category`, `use one of ${bounceCategories.join(' ')}`);
	}
	if (!isObject(when) || Object.keys(when).length === 0) {
		refuse(`${rulePath}.when`, `name at least one of ${conditions.join(' ')}`);
		return [];
	}
	checkFields(`${rulePath}.when`, when, conditions, refuse);
	const parsedConditions = parseConditions(when, `${rulePath}.when`, read, refuse);
	return validCategory === null ? [] : [{name, category: validCategory, ...parsedConditions}];
}

const hostHint = 'use names such as outlook.com, which include their subdomains';

function parseConditions(
	when: JsonObject,
	path: string,
	read: ReadPattern,
	refuse: Refuse,
): Omit<BounceRule, 'name' | 'category'> {
	return {
		class: parseClass(when.class, `${path}.class`, refuse),
		code: parseCodes(when.code, `${path}.code`, refuse),
		enhanced: parseEnhanced(when.enhanced, `${path}.enhanced`, refuse),
		phases: parseList(when.phase, `${path}.phase`, isPhase, `use ${phases.join(' ')}`, refuse),
		hosts: parseList(when.host, `${path}.host`, isHost, hostHint, refuse),
		address: parseFlag(when.address, `${path}.address`, refuse),
		text: parsePatterns(when.text, `${path}.text`, read, refuse),
		unless: parsePatterns(when.unless, `${path}.unless`, read, refuse),
	};
}

function parseFlag(value: unknown, path: string, refuse: Refuse): boolean | null {
	if (value === undefined || typeof value === 'boolean') {
		return value ?? null;
	}
	refuse(path, 'use true or false');
	return null;
}

function parseClass(value: unknown, path: string, refuse: Refuse): 4 | 5 | null {
	if (value === undefined || value === 4 || value === 5) {
		return value ?? null;
	}
	refuse(path, 'use 4 or 5');
	return null;
}

/** Parses `550`, `55x`, `5xx` and `none`. */
function parseCodes(value: unknown, path: string, refuse: Refuse): RegExp | null {
	const isCode = (code: string): code is string => /^(?:[45](?:\d\d|\dx|xx)|none)$/.test(code);
	const list = parseList(value, path, isCode, 'use codes such as 550, 55x, 5xx, or none', refuse);
	return list && new RegExp(`^(?:${list.map(code => code.replaceAll('x', '\\d')).join('|')})$`);
}

const enhancedForm = /^(?:none|([45x])\.(\d{1,3})\.(?:(\*)|(\d{1,3})(?:-(\d{1,3}))?))$/;

/** Parses `5.1.1`, `x.1.1`, `x.7.*`, `x.7.600-649` and `none`. */
function parseEnhanced(value: unknown, path: string, refuse: Refuse): RegExp | null {
	const isEnhanced = (code: string): code is string => {
		const parts = enhancedForm.exec(code);
		return parts !== null && !(Number(parts[5]) < Number(parts[4]));
	};
	const hint = 'use codes such as 5.1.1, x.1.1, x.7.*, x.7.600-649, or none';
	const list = parseList(value, path, isEnhanced, hint, refuse);
	return list && new RegExp(`^(?:${list.map(toEnhancedPattern).join('|')})$`);
}

function toEnhancedPattern(code: string): string {
	const [, digit, subject, any, from, to] = enhancedForm.exec(code) as RegExpExecArray;
	if (digit === undefined) {
		return code;
	}
	const first = Number(from);
	const details = Array.from({length: Number(to ?? from) - first + 1}, (_, index) => first + index);
	return `${digit === 'x' ? '[45]' : digit}\\.${subject}\\.(?:${any === undefined ? details.join('|') : '\\d+'})`;
}

function parsePatterns(value: unknown, path: string, read: ReadPattern, refuse: Refuse): RegExp | null {
	const list = parseList(value, path, (item): item is string => item !== '', 'use regular expressions', refuse);
	if (list === null) {
		return null;
	}
	if (list.join('|').length > maxPatternLength) {
		refuse(path, `use no more than ${maxPatternLength} characters`);
		return null;
	}
	const sources: string[] = [];
	for (const item of list) {
		const result = read(item);
		if (result.ok) {
			sources.push(result.source);
		} else {
			refuse(path, `${JSON.stringify(item.slice(0, 60))} ${result.problem}`);
		}
	}
	return sources.length < list.length ? null : new RegExp(sources.join('|'), 'i');
}

function parseList<T extends string>(
	value: unknown,
	path: string,
	isValid: (item: string) => item is T,
	hint: string,
	refuse: Refuse,
): T[] | null {
	if (value === undefined) {
		return null;
	}
	const list = (Array.isArray(value) ? value : [value]).map((item: unknown) =>
		typeof item === 'number' ? `${item}` : item,
	);
	const valid = list.filter((item): item is T => typeof item === 'string' && isValid(item));
	if (list.length === 0 || valid.length < list.length) {
		refuse(path, hint);
		return null;
	}
	return valid;
}

function isCategory(value: unknown): value is BounceCategory {
	return (bounceCategories as readonly unknown[]).includes(value);
}

function isPhase(value: string): value is Phase {
	return (phases as readonly string[]).includes(value);
}

function isHost(value: string): value is string {
	return value === 'none' || /^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,8}$/.test(value);
}

function checkFields(path: string, fields: JsonObject, allowed: readonly string[], refuse: Refuse): void {
	for (const field of Object.keys(fields).filter(name => !allowed.includes(name))) {
		refuse(`${path}.${field.slice(0, 40)}`, `is not one of ${allowed.join(' ')}`);
	}
}

/** A regular expression adapted to normalized text, or its problem and the fix. */
type Pattern = {readonly ok: true; readonly source: string} | {readonly ok: false; readonly problem: string};

/** A text of 4,096 characters is matched from each of its positions. */
const maxWays = 10_000;

/**
 * Reads one regular expression of a rule table. Rejects one that could be slow, and one that can never match, because
 * rules see normalized text (`plainText`). Accents are optional: normalized text has none.
 */
export function parsePattern(pattern: string): Pattern {
	const decoded = decodeEscapes(pattern);
	const problem = compileProblem(pattern) ?? formProblem(decoded) ?? timeProblem(simplified(decoded));
	if (problem !== null) {
		return {ok: false, problem};
	}
	const source = toPlainSource(decoded);
	const regex = new RegExp(source, 'i');
	// `^$` is allowed, because some mail servers reply without any text.
	return regex.test('') && regex.test('\0')
		? {ok: false, problem: 'matches every text: add something that must occur in it'}
		: {ok: true, source};
}

/** Reads a pattern that is known to be valid, without checking it. */
export function parseGoodPattern(pattern: string): Pattern {
	return {ok: true, source: toPlainSource(decodeEscapes(pattern))};
}

function toPlainSource(decoded: string): string {
	return unaccented(decoded.replaceAll('ß', '(?:ss)'));
}

/** Decodes `\u00e9`, `\xe9` and `\é` to `é`, so that the accent can be removed. */
function decodeEscapes(pattern: string): string {
	return pattern.replace(/\\(?:u([\da-f]{4})|x([\da-f]{2})|.)/gis, (code, long?: string, short?: string) => {
		const hex = long ?? short;
		const character = hex === undefined ? code.slice(1) : String.fromCharCode(Number.parseInt(hex, 16));
		return character > '\x7f' ? character : code;
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

/** Finds what normalized text cannot contain, and what would change its meaning when rewritten or joined. */
function formProblem(source: string): string | null {
	const [code] =
		/\\(?:u(?![\da-fA-F]{4})|x(?![\da-fA-F]{2})|[^\WbBdDsSwWux])/.exec(source.replaceAll('\\\\', '')) ?? [];
	if (code !== undefined) {
		return `has ${code}, which is not supported: use only \\b \\B \\d \\D \\s \\S \\w \\W`;
	}
	if (/\(\?<(?![=!])/.test(simplified(source))) {
		return 'has a named group, which is not supported: use (?:…)';
	}
	const classes = (source.match(escapesAndClasses) ?? []).filter(part => part.startsWith('['));
	for (const [match, from = '', to = ''] of classes.flatMap(part => [...part.slice(1, -1).matchAll(range)])) {
		if (unaccented(from + to) !== from + to) {
			return `has ${match}, but accents are removed before matching: use a-z, or list the letters`;
		}
	}
	if (classes.includes('[]')) {
		return 'has [], which matches nothing: write \\[ and \\] for literal brackets';
	}
	if (classes.some(part => part.includes('ß'))) {
		return 'has ß in [], but ß becomes ss before matching: use (?:ss|…)';
	}
	const literalText = source.replace(escapesAndClasses, (_, sign = 'a') => (/\W/.test(sign) ? sign : '.'));
	if (literalText.includes('@')) {
		return 'has @, but addresses are removed before matching: omit it';
	}
	if (/[a-z]_\??[a-z]/i.test(unaccented(literalText))) {
		return 'has _ between letters, which becomes a space before matching: write a space';
	}
	return /\s{2}|[^\S ]/.test(literalText) ? 'has white space other than single spaces: write a single space' : null;
}

/** Returns the pattern with letters in place of classes and escapes. */
function simplified(source: string): string {
	return source.replace(/\\./gs, 'a').replace(/\[[^\]]*\]/g, 'a');
}

/** Rejects unbounded and nested repetitions, so that time grows no faster than the text. */
function timeProblem(bare: string): string | null {
	if (/[*+]|\{\d+,\}/.test(bare)) {
		return 'repeats without a bound: use {0,40} instead of * or +';
	}
	if (repeatsChoice(bare)) {
		return 'repeats a group that has a repetition or a choice: write the group out';
	}
	return countWays(bare) > maxWays ? `repeats too often: the product of its bounds exceeds ${maxWays}` : null;
}

/** Whether a repeated group is ambiguous: it contains a repetition, an alternative or an option. */
function repeatsChoice(bare: string): boolean {
	const open: boolean[] = [];
	for (const [token] of bare.matchAll(/\(\??|\)(?:\{\d+,?\d*\})?|\{\d+,?\d*\}|[|?]/g)) {
		if (token.startsWith('(')) {
			open.push(false);
		} else if (token.startsWith(')')) {
			const hasChoice = open.pop() ?? false;
			const isRepeated = token.length > 1;
			if (hasChoice && isRepeated) {
				return true;
			}
			if (open.length > 0 && (hasChoice || isRepeated)) {
				open[open.length - 1] = true;
			}
		} else if (open.length > 0) {
			open[open.length - 1] = true;
		}
	}
	return false;
}

/** Returns the maximum number of ways to split a text among the pattern's repetitions. */
function countWays(bare: string): number {
	const bounds = [...bare.matchAll(/\{(\d+)(?:,(\d+))?\}/g)].map(([, min, max]) => Number(max ?? min));
	return bounds.reduce((product, bound) => product * Math.max(1, bound), 1);
}
