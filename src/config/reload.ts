import {isDeepStrictEqual} from 'node:util';
import {deepFreeze} from './freeze.ts';
import type {Settings} from './settings.ts';
import {settingKeys, table} from './table.ts';

export type Reload = {
	/** As running, with what may change while running taken from the new ones. */
	readonly settings: Settings;
	/** Names of settings that now hold. */
	readonly changed: readonly string[];
	/** Names of settings that differ and hold only after a restart. */
	readonly waiting: readonly string[];
};

/** What SIGHUP does with freshly loaded settings. */
export function reloadSettings(running: Settings, loaded: Settings): Reload {
	const differing = settingKeys.filter(key => !isDeepStrictEqual(running[key], loaded[key]));
	const live = differing.filter(key => table[key].live);
	const taken = Object.fromEntries(live.map(key => [key, loaded[key]]));
	return {
		settings: deepFreeze({...running, ...taken}),
		changed: live.map(key => table[key].name),
		waiting: differing.filter(key => !table[key].live).map(key => table[key].name),
	};
}
