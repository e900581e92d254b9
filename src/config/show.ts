import {linkBase} from './derive.ts';
import type {LoadedSettings} from './settings.ts';
import {settingKeys, table} from './table.ts';

/** A line of `mailctl config show`. */
export type ShownSetting = {
	readonly name: string;
	/** The effective value, secrets masked; null: not set. */
	readonly value: string | null;
	/** `default`, `environment` or the file it stands in. */
	readonly source: string;
	/** SIGHUP changes it. */
	readonly live: boolean;
};

/** The effective settings in the order of docs/reference/settings.md. */
export function showSettings({settings, sources, texts}: LoadedSettings & {ok: true}): ShownSetting[] {
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
