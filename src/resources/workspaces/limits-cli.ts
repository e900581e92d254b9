import {count, type none, orNull, unlessDefault} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {grouped} from '../../cli/terminal-text.ts';
import {
	defaultLimits,
	type LimitName,
	limitNames,
	limitWords,
	maxPublicTopics,
	readLimits,
} from '../../mail/workspace-limits.ts';
import type {WorkspaceInput} from './rules.ts';
import type {Workspace} from './store.ts';

type Camel<Text extends string> = Text extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<Rest>}` : Text;
type OptionName = `max${Capitalize<Camel<LimitName>>}`;
export type LimitOptions = {readonly [Name in OptionName]?: number | typeof none};

/** The largest limit an operator can set, because some lists of a workspace are read as a whole. */
const maxLimit = 100_000;

const flagOf = (name: LimitName) => `--max-${name.replaceAll('_', '-')}`;
const optionOf = (name: LimitName) =>
	`max_${name}`.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) as OptionName;

/** `--max-topics`, `--max-public-topics` and so on. */
export function addLimitOptions(command: CliCommand): void {
	for (const name of limitNames) {
		const text = `maximum number of ${limitWords(name)}, default ${grouped(defaultLimits[name])}`;
		const max = name === 'public_topics' ? maxPublicTopics : maxLimit;
		command.option(`${flagOf(name)} <n>`, text, unlessDefault(count(flagOf(name), 0, max)));
	}
}

/** The limits that the options change, or `undefined` if they change none. */
export function limitsIn(options: LimitOptions): WorkspaceInput['limits'] {
	const values = limitNames.map(name => [name, orNull(options[optionOf(name)])] as const);
	const changed = values.filter(([, value]) => value !== undefined);
	return changed.length === 0 ? undefined : Object.fromEntries(changed);
}

/** The limits that differ from their defaults, for people. */
export function limitsText({limits}: Workspace): string {
	const all = readLimits(limits);
	const changed = limitNames.filter(name => all[name] !== defaultLimits[name]);
	return changed.map(name => `${limitWords(name)} ${grouped(all[name])}`).join(', ') || 'defaults';
}
