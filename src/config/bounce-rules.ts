import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {packageFile} from '../kit/program-files.ts';
import {readSettingFile} from '../kit/regular-file.ts';
import {utf8Text} from '../kit/text.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {parseGoodPattern, parseRuleTable, type RuleTable, withOwnRules} from '../mail/bounce-rule-table.ts';
import {ConfigError} from './config-error.ts';
import type {TableValues} from './table.ts';

/** The file that ships with the program, wherever it is installed. */
const shippedFile = fileURLToPath(packageFile('config/bounce-rules.json'));
const maxFileLength = 1024 * 1024;

/** The setting that names the operator's own rules. */
type BounceRulesSettings = Pick<TableValues, 'bounceRulesFile'>;

/** Returns all problems with MAILCTL_BOUNCE_RULES_FILE. */
export function bounceRulesProblems(settings: BounceRulesSettings): string[] {
	const own = ownRules(settings);
	return own.ok ? [] : [...own.problems];
}

/** Reads the operator's rules, followed by the shipped ones. Each problem begins with the file and the path in it. */
export function readBounceRules({bounceRulesFile}: BounceRulesSettings): RuleTable {
	const own = ownRules({bounceRulesFile});
	if (!own.ok) {
		return own;
	}
	const shipped = parseRuleTable(readFileSync(shippedFile, 'utf8'), parseGoodPattern);
	return shipped.ok
		? {ok: true, rules: withOwnRules(own.rules, shipped.rules)}
		: {ok: false, problems: shipped.problems.map(problem => `${shippedFile} ${problem}`)};
}

/** Like `readBounceRules`, but throws ConfigError if the file is invalid. */
export function loadBounceRules(settings: BounceRulesSettings): readonly BounceRule[] {
	const table = readBounceRules(settings);
	if (!table.ok) {
		throw new ConfigError(table.problems);
	}
	return table.rules;
}

function ownRules({bounceRulesFile}: BounceRulesSettings): RuleTable {
	if (bounceRulesFile === null || bounceRulesFile === shippedFile) {
		return {ok: true, rules: []};
	}
	const own = read(bounceRulesFile);
	const source = `MAILCTL_BOUNCE_RULES_FILE="${bounceRulesFile}"`;
	return own.ok ? own : {ok: false, problems: own.problems.map(problem => `${source} ${problem}`)};
}

function read(file: string): RuleTable {
	try {
		const text = utf8Text(readSettingFile(file));
		return text.length > maxFileLength ? {ok: false, problems: ['is larger than 1 MiB']} : parseRuleTable(text);
	} catch (error) {
		return {ok: false, problems: [`cannot be read: ${(error as Error).message}`]};
	}
}
