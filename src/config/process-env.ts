import {availableParallelism, hostname} from 'node:os';
import process from 'node:process';
import {type Environment, type LoadedSettings, loadSettings} from './settings.ts';

/** The environment; nothing else in `src` reads process.env. */
export function processEnvironment(): Environment {
	return process.env;
}

/** Where the settings of a packaged daemon are; its unit reads them. */
export const systemFile = '/etc/mailctl/mailctl.env';

/** Settings of this process on this machine; `beside`: for a command beside the daemon, which may be the system's. */
export function loadProcessSettings(
	envFile?: string,
	input: {beside?: boolean; systemFile?: string} = {},
): LoadedSettings {
	return loadSettings({
		...input,
		env: processEnvironment(),
		envFile,
		cwd: process.cwd(),
		hostname: hostname(),
		cpus: availableParallelism(),
		terminal: process.stdout.isTTY === true,
	});
}
