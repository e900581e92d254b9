import {linkBase} from './derive.ts';
import type {LoadedSettings} from './settings.ts';
import {settingKeys, table} from './table.ts';

/** A line of `mailctl config show`. */
export type ShownSetting = {
	readonly name: string;
	/** The effective value, secrets masked; null: not set. */
	readonly value: string | null;
	/** `default`, `environment` or the file that has it. */
	readonly source: string;
	/** SIGHUP changes it. */
	readonly live: boolean;
};

/** A setting of a daemon that runs; `waits`: its file says another value by now, which holds after a restart. */
export type RunningSetting = ShownSetting & {readonly waits: boolean};

type Loaded = LoadedSettings & {ok: true};

/** The settings that a daemon was started with, as far as they have not been read again since. */
export function showRunning(started: Loaded, latest: Loaded): RunningSetting[] {
	const now = showSettings(latest);
	return showSettings(started).map((row, index) => {
		const read = now[index] ?? row;
		return row.live ? {...read, waits: false} : {...row, waits: read.value !== row.value};
	});
}

/** The effective settings in the order of docs/reference/settings.md. */
export function showSettings({settings, sources, texts}: Loaded): ShownSetting[] {
	const derived = {
		returnPathDomain: settings.returnPathDomain,
		feedbackAddress: settings.feedbackAddress,
		publicUrl: linkBase(settings),
		dataDir: settings.dataDir,
	};
	const shown: Readonly<Record<string, string | null>> = {...texts, ...derived};
	return settingKeys.map(key => {
		const {name, mask, live} = table[key];
		const text = shown[key] || null;
		return {name, value: text !== null && mask ? mask(text) : text, source: sources[key], live};
	});
}
