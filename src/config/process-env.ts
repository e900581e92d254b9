import {availableParallelism, hostname} from 'node:os';
import process from 'node:process';
import {type Environment, type LoadedSettings, loadSettings} from './settings.ts';

/** Returns the environment. Nothing else in `src` reads process.env. */
export function processEnvironment(): Environment {
	return process.env;
}

/** The settings file of a packaged daemon, which its systemd unit reads. */
export const systemFile = '/etc/mailctl/mailctl.env';

/** Loads the settings of this process; `isBesideDaemon` is set for a command that runs beside a daemon. */
export function loadProcessSettings(
	envFile?: string,
	input: {isBesideDaemon?: boolean; systemFile?: string} = {},
): LoadedSettings {
	return loadSettings({
		...input,
		env: processEnvironment(),
		envFile,
		cwd: process.cwd(),
		hostname: hostname(),
		cpus: availableParallelism(),
		isTerminal: process.stdout.isTTY === true,
	});
}
