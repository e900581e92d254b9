import {isObject, type JsonObject, stoppedAt} from '../kit/json-object.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {type BounceCategory, bounceCategories, type Phase, phases} from '../mail/outcome.ts';
import {type Pattern, patternOf} from './pattern.ts';

export type RuleTable =
	| {readonly ok: true; readonly rules: readonly BounceRule[]}
	/** Each begins with where it is: `rules[3] (full-552).when.text: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

/** Reports a problem at a path. */
type Tell = (path: string, problem: string) => void;
type ReadPattern = (written: string) => Pattern;

const mostRules = 1000;
const longestPattern = 8000;
const conditions = ['class', 'code', 'enhanced', 'phase', 'host', 'text', 'unless'];
const ruleFields = ['name', 'why', 'when', 'category'];

/**
 * Reads a table of bounce rules (docs/reference/bounces.md) and collects every problem in it.
 *
 * @param read reads patterns; those of the shipped table are checked by a test, as checking takes a tenth of the
 * daemon's start
 */
export function parseRuleTable(text: string, read: ReadPattern = patternOf): RuleTable {
	const problems: string[] = [];
	const tell: Tell = (path, problem) => problems.push(`${path}: ${problem}`);
	const rules = rulesOf(text, read, tell);
	return problems.length > 0 ? {ok: false, problems} : {ok: true, rules};
}

/** Own rules come first; one with the name of a shipped one takes its place. */
export function withOwnRules(own: readonly BounceRule[], shipped: readonly BounceRule[]): BounceRule[] {
	const names = new Set(own.map(({name}) => name));
	return [...own, ...shipped.filter(({name}) => !names.has(name))];
}

function rulesOf(text: string, read: ReadPattern, tell: Tell): BounceRule[] {
	const file = json(text, tell);
	if (file === undefined) {
		return [];
	}
	if (!isObject(file) || !Array.isArray(file.rules)) {
		tell('the file', 'is no JSON object with a list `rules`');
		return [];
	}
	checkFields('the file', file, ['rules', '$comment'], tell);
	if (file.rules.length > mostRules) {
		tell('rules', `has ${file.rules.length} entries, use no more than ${mostRules}`);
		return [];
	}
	const names = new Set<string>();
	return file.rules.flatMap((entry: unknown, index) => rule(entry, `rules[${index}]`, names, read, tell));
}

function json(text: string, tell: Tell): unknown {
	try {
		return JSON.parse(text) as unknown;
	} catch (error) {
		tell('the file', `is not JSON${stoppedAt(error, text)}`);
		return undefined;
	}
}

function rule(entry: unknown, place: string, names: Set<string>, read: ReadPattern, tell: Tell): BounceRule[] {
	if (!isObject(entry)) {
		tell(place, 'is no object');
		return [];
	}
	const {name, category, when} = entry;
	if (typeof name !== 'string' || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name)) {
		tell(`${place}.name`, 'use 1 to 64 small letters, digits, dots, - and _');
		return [];
	}
	const path = `${place} (${name})`;
	if (names.has(name)) {
		tell(path, 'another rule has this name');
	}
	names.add(name);
	checkFields(path, entry, ruleFields, tell);
	const known = isCategory(category) ? category : null;
	if (known === null) {
		tell(`${path}.category`, `use one of ${bounceCategories.join(' ')}`);
	}
	if (!isObject(when) || Object.keys(when).length === 0) {
		tell(`${path}.when`, `name at least one of ${conditions.join(' ')}`);
		return [];
	}
	checkFields(`${path}.when`, when, conditions, tell);
	const all = conditionsOf(when, `${path}.when`, read, tell);
	return known === null ? [] : [{name, category: known, ...all}];
}

function conditionsOf(
	when: JsonObject,
	path: string,
	read: ReadPattern,
	tell: Tell,
): Omit<BounceRule, 'name' | 'category'> {
	return {
		class: classOf(when.class, `${path}.class`, tell),
		code: codes(when.code, `${path}.code`, tell),
		enhanced: enhanced(when.enhanced, `${path}.enhanced`, tell),
		phases: words(when.phase, `${path}.phase`, isPhase, `use ${phases.join(' ')}`, tell),
		hosts: words(
			when.host,
			`${path}.host`,
			isHost,
			'use names such as outlook.com; what is below them is meant too',
			tell,
		),
		text: pattern(when.text, `${path}.text`, read, tell),
		unless: pattern(when.unless, `${path}.unless`, read, tell),
	};
}

function classOf(value: unknown, path: string, tell: Tell): 4 | 5 | null {
	if (value === undefined || value === 4 || value === 5) {
		return value ?? null;
	}
	tell(path, 'use 4 or 5');
	return null;
}

/** `550`, `55x`, `5xx`, `none`. */
function codes(value: unknown, path: string, tell: Tell): RegExp | null {
	const isCode = (one: string): one is string => /^(?:[45](?:\d\d|\dx|xx)|none)$/.test(one);
	const given = words(value, path, isCode, 'use codes such as 550, 55x, 5xx, or none', tell);
	return given && new RegExp(`^(?:${given.map(one => one.replaceAll('x', '\\d')).join('|')})$`);
}

const enhancedForm = /^(?:none|([45x])\.(\d{1,3})\.(?:(\*)|(\d{1,3})(?:-(\d{1,3}))?))$/;

/** `5.1.1`, `x.1.1`, `x.7.*`, `x.7.600-649`, `none`. */
function enhanced(value: unknown, path: string, tell: Tell): RegExp | null {
	const isEnhanced = (one: string): one is string => {
		const parts = enhancedForm.exec(one);
		return parts !== null && !(Number(parts[5]) < Number(parts[4]));
	};
	const hint = 'use codes such as 5.1.1, x.1.1, x.7.*, x.7.600-649, or none';
	const given = words(value, path, isEnhanced, hint, tell);
	return given && new RegExp(`^(?:${given.map(enhancedPattern).join('|')})$`);
}

function enhancedPattern(one: string): string {
	const [, digit, subject, any, from, to] = enhancedForm.exec(one) as RegExpExecArray;
	if (digit === undefined) {
		return one;
	}
	const first = Number(from);
	const details = Array.from({length: Number(to ?? from) - first + 1}, (_, index) => first + index);
	return `${digit === 'x' ? '[45]' : digit}\\.${subject}\\.(?:${any === undefined ? details.join('|') : '\\d+'})`;
}

function pattern(value: unknown, path: string, read: ReadPattern, tell: Tell): RegExp | null {
	const given = words(value, path, (one): one is string => one !== '', 'use regular expressions', tell);
	if (given === null) {
		return null;
	}
	if (given.join('|').length > longestPattern) {
		tell(path, `use no more than ${longestPattern} characters`);
		return null;
	}
	const sources: string[] = [];
	for (const one of given) {
		const found = read(one);
		if (found.ok) {
			sources.push(found.source);
		} else {
			tell(path, `${JSON.stringify(one.slice(0, 60))} ${found.problem}`);
		}
	}
	return sources.length < given.length ? null : new RegExp(sources.join('|'), 'i');
}

function words<T extends string>(
	value: unknown,
	path: string,
	isGood: (one: string) => one is T,
	hint: string,
	tell: Tell,
): T[] | null {
	if (value === undefined) {
		return null;
	}
	const list = (Array.isArray(value) ? value : [value]).map((one: unknown) =>
		typeof one === 'number' ? `${one}` : one,
	);
	const good = list.filter((one): one is T => typeof one === 'string' && isGood(one));
	if (list.length === 0 || good.length < list.length) {
		tell(path, hint);
		return null;
	}
	return good;
}

function isCategory(value: unknown): value is BounceCategory {
	return (bounceCategories as readonly unknown[]).includes(value);
}

function isPhase(value: string): value is Phase {
	return (phases as readonly string[]).includes(value);
}

function isHost(value: string): value is string {
	return /^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,8}$/.test(value);
}

function checkFields(path: string, fields: JsonObject, allowed: readonly string[], tell: Tell): void {
	for (const field of Object.keys(fields).filter(one => !allowed.includes(one))) {
		tell(`${path}.${field.slice(0, 40)}`, `is none of ${allowed.join(' ')}`);
	}
}
