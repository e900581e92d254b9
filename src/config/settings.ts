import {existsSync} from 'node:fs';
import {resolve} from 'node:path';
import {isDeepStrictEqual} from 'node:util';
import {parse} from 'dotenv';
import {readFileWithOwner, readSettingFile} from '../kit/regular-file.ts';
import {nearest, unprintable} from '../kit/text.ts';
import {deriveSettings, linkBase} from './derive.ts';
import type {Machine, Setting} from './parsers.ts';
import {crossProblems} from './rules.ts';
import {type SettingKey, settingKeys, type TableValues, table} from './table.ts';

const unsafe = new RegExp(`[${unprintable}]`, 'gu');

/** The parsed settings: durations in milliseconds, absolute paths, split addresses, deeply frozen. */
export type Settings = ReturnType<typeof deriveSettings>;
/** Where each value comes from: `default`, `environment`, or the name of a file. */
type Sources = Readonly<Record<SettingKey, string>>;
/** The values as written, including defaults; `null` if there is neither. Secrets are not masked. */
type Texts = Readonly<Record<SettingKey, string | null>>;

export type Environment = Readonly<Record<string, string | undefined>>;
export type LoadedSettings =
	| {readonly ok: true; readonly settings: Settings; readonly sources: Sources; readonly texts: Texts}
	| {readonly ok: false; readonly problems: readonly string[]};

type SettingsInput = Omit<Machine, 'isTerminal'> & {
	readonly env: Environment;
	/** The file of `--env-file`, which is read instead of `.env` and must exist. */
	readonly envFile?: string | undefined;
	readonly cwd: string;
	/**
	 * The settings file of the system's daemon. It is read first, at the lowest precedence, if nothing else says where
	 * the store is. An unreadable file is ignored.
	 */
	readonly systemFile?: string;
	/** Set for a command beside the daemon: settings that only the daemon uses may be invalid. */
	readonly isBesideDaemon?: boolean;
	/** Whether standard output is a terminal. */
	readonly isTerminal?: boolean;
};

type Assignment = {readonly text: string; readonly source: string};
const maxShownLength = 120;
/** The working directory and data folder of the system's daemon, as in config/mailctl.service. */
const systemFolder = '/var/lib/mailctl';

/**
 * Loads all settings. The environment takes precedence over the file, and the file over the defaults. Reports every
 * problem at once, so that one restart fixes them all.
 */
export function loadSettings(input: SettingsInput): LoadedSettings {
	const {assignments, systemName, problems} = readAssignments(input);
	const values: Partial<Record<SettingKey, unknown>> = {};
	const sources = {} as Record<SettingKey, string>;
	const texts = {} as Record<SettingKey, string | null>;
	const machine = {hostname: input.hostname, cpus: input.cpus, isTerminal: input.isTerminal ?? false};
	for (const key of settingKeys) {
		const setting: Setting<unknown> = table[key];
		const assignment = assignments.get(setting.name);
		assignments.delete(setting.name);
		// An empty value counts as unset, because that is how compose and unit files omit a variable.
		const {text, source} = assignment?.text ? assignment : {text: setting.fallback(machine), source: 'default'};
		sources[key] = source;
		texts[key] = text;
		const parsed =
			text === null
				? {ok: true as const, value: null}
				: setting.parse(text, source === systemName ? systemFolder : input.cwd);
		if (parsed.ok) {
			values[key] = parsed.value;
		} else {
			const visible = setting.mask ? '***' : printable(text ?? '');
			problems.push(`${setting.name}="${visible}"${from(source)} is not allowed: ${parsed.allowed}`);
		}
	}
	const names = settingKeys.map(key => table[key].name);
	for (const [name, {source}] of assignments) {
		const suggestion = nearest(name, names);
		const hint = suggestion ? `: did you mean ${suggestion}?` : '';
		problems.push(`${printable(name)}${from(source)} is not a setting${hint}`);
	}
	problems.push(...crossProblems(values as Partial<TableValues>, input.isBesideDaemon ?? false));
	if (problems.length > 0) {
		return {ok: false, problems};
	}
	return {ok: true, settings: deepFreeze(deriveSettings(values as TableValues)), sources, texts};
}

/** Returns what the files and the environment assign to each name, and the problems of the files. */
function readAssignments(input: SettingsInput) {
	const fileName = input.envFile ?? '.env';
	const {values: fileValues, problems, isExposed} = openEnvFile(fileName, input);
	const own = [[fileName, fileValues] as const, ['environment', input.env] as const];
	const hasStore = own.some(([, values]) => values.MAILCTL_DATA_DIR || values.MAILCTL_DATABASE_URL);
	const system = hasStore ? undefined : openSystemFile(input);
	problems.push(...(system?.problems ?? []));
	const assignments = new Map<string, Assignment>();
	for (const [source, values] of system ? [[system.name, system.values] as const, ...own] : own) {
		for (const [name, text] of Object.entries(values)) {
			if (name.startsWith('MAILCTL_') && text !== undefined) {
				assignments.set(name, {text: text.trim(), source});
			}
		}
	}
	const hasSecret = settingKeys.some(
		key => assignments.get(table[key].name)?.source === fileName && isSecret(key, assignments),
	);
	if (isExposed && hasSecret) {
		problems.push(`${fileName} holds a password or key and others can read it: run chmod 600 ${fileName}`);
	}
	return {assignments, systemName: system?.name, problems};
}

function openEnvFile(name: string, {envFile, cwd}: SettingsInput): EnvFile & {problems: string[]} {
	const empty = {values: {}, isExposed: false};
	try {
		const file = readEnvFile(resolve(cwd, name));
		if (file) {
			return {...file, problems: file.problems.map(problem => `${name} ${problem}`)};
		}
		return {
			...empty,
			problems: envFile === undefined ? [] : [`${name} does not exist: name an existing --env-file`],
		};
	} catch (error) {
		return {...empty, problems: [`${name} cannot be read: ${(error as Error).message}`]};
	}
}

/** Reads the system's settings. Returns `undefined` if `./data` has a store or the file cannot be read. */
function openSystemFile({systemFile: name, envFile, cwd}: SettingsInput) {
	if (name === undefined || envFile !== undefined || existsSync(resolve(cwd, 'data/mailctl.db'))) {
		return undefined;
	}
	try {
		const file = readEnvFile(name);
		return (
			file && {
				name,
				values: {MAILCTL_DATA_DIR: systemFolder, ...file.values},
				problems: file.problems.map(problem => `${name} ${problem}`),
			}
		);
	} catch {
		return undefined;
	}
}

function isSecret(key: SettingKey, assignments: ReadonlyMap<string, Assignment>): boolean {
	const {mask, name} = table[key];
	const text = assignments.get(name)?.text ?? '';
	return mask !== null && text !== '' && mask(text) !== text;
}

function from(source: string): string {
	return source === 'default' || source === 'environment' ? '' : ` (${source})`;
}

function printable(text: string): string {
	const clean = text.replace(unsafe, '?');
	return clean.length > maxShownLength ? `${clean.slice(0, maxShownLength)}…` : clean;
}

/** Freezes plain objects and arrays deeply, except bytes, which JavaScript cannot freeze. */
function deepFreeze<T>(value: T): T {
	if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) {
		return value;
	}
	for (const inner of Object.values(value)) {
		deepFreeze(inner);
	}
	return Object.freeze(value);
}

type Reload = {
	/** The running settings, with the live ones replaced by the new values. */
	readonly settings: Settings;
	/** Names of settings that took effect. */
	readonly changed: readonly string[];
	/** Names of settings that differ but need a restart. */
	readonly waiting: readonly string[];
};

/** Applies freshly loaded settings to the running ones, as SIGHUP does. */
export function reloadSettings(running: Settings, loaded: Settings): Reload {
	const differing = settingKeys.filter(key => !isDeepStrictEqual(running[key], loaded[key]));
	const live = differing.filter(key => table[key].live);
	const applied = Object.fromEntries(live.map(key => [key, loaded[key]]));
	return {
		settings: deepFreeze({...running, ...applied}),
		changed: live.map(key => table[key].name),
		waiting: differing.filter(key => !table[key].live).map(key => table[key].name),
	};
}

type EnvFile = {
	readonly values: Readonly<Record<string, string>>;
	/** Lines that name a setting but cannot be parsed. */
	readonly problems: readonly string[];
	/** Whether others may read it, or the group of a file that does not belong to root. */
	readonly isExposed: boolean;
};

/**
 * Reads an environment file in dotenv's format, without changing the environment. Returns `undefined` if it does not
 * exist, and throws the system's error if it cannot be read.
 */
function readEnvFile(path: string): EnvFile | undefined {
	if (!existsSync(path)) {
		return undefined;
	}
	const {content, mode, uid} = readFileWithOwner(path);
	const text = content.toString();
	const values = parse(text);
	const problems: string[] = [];
	for (const [index, line] of text.split(/\r\n?|\n/).entries()) {
		const name = /^\s*(?:export\s+)?(MAILCTL_\w*)/.exec(line)?.[1];
		if (name && !Object.hasOwn(values, name)) {
			problems.push(`line ${index + 1}: ${name} is not followed by =value`);
		}
	}

	// The package's file belongs to root, and the service reads it through its group.
	return {values, problems, isExposed: (mode & (uid === 0 ? 0o004 : 0o044)) !== 0};
}

/** The settings that a running daemon reads again after SIGHUP. */
export type LiveSettings = Pick<
	Settings,
	| 'retrySchedule'
	| 'queueLifetime'
	| 'logLevel'
	| 'rateLimit'
	| 'authFailures'
	| 'idempotencyRetention'
	| 'retentionDays'
	| 'receivedRetentionDays'
	| 'minFreeDisk'
	| 'sweepInterval'
	| 'destinationsFile'
	| 'bounceRulesFile'
	| 'reputation'
>;

/** One line of `mailctl config show`. */
export type ShownSetting = {
	readonly name: string;
	/** The effective value with secrets masked, or `null` if it is not set. */
	readonly value: string | null;
	/** `default`, `environment` or the file that sets it. */
	readonly source: string;
	/** Whether SIGHUP changes it. */
	readonly live: boolean;
};

/** Returns the effective settings in the order of docs/reference/settings.md. */
export function showSettings({settings, sources, texts}: LoadedSettings & {ok: true}): ShownSetting[] {
	const derived = {
		returnPathDomain: settings.returnPathDomain,
		feedbackAddress: settings.feedbackAddress,
		publicUrl: linkBase(settings),
		dataDir: settings.dataDir,
	};
	const effective: Readonly<Record<string, string | null>> = {...texts, ...derived};
	return settingKeys.map(key => {
		const {name, mask, live} = table[key];
		const text = effective[key] || null;
		return {name, value: text !== null && mask ? mask(text) : text, source: sources[key], live};
	});
}

/** Returns the authorities of MAILCTL_CA_FILE (PEM), trusted in addition to the public ones, or `null`. */
export function extraCa({caFile}: Pick<Settings, 'caFile'>): string | null {
	return caFile === null ? null : readSettingFile(caFile).toString();
}

/** Returns the authorities trusted for webhook endpoints in addition to the public ones (PEM). */
export function webhookCa(settings: Pick<Settings, 'caFile' | 'webhookCaFile'>): string[] {
	return [settings.caFile, settings.webhookCaFile].flatMap(file =>
		file === null ? [] : readSettingFile(file).toString(),
	);
}
