import {availableParallelism, hostname} from 'node:os';
import process from 'node:process';
import {type Environment, type LoadedSettings, loadSettings} from './settings.ts';

/** The environment; nothing else in `src` reads process.env. */
export function processEnvironment(): Environment {
	return process.env;
}

/** Settings of this process on this machine; `beside`: for a command beside the daemon. */
export function loadProcessSettings(envFile?: string, beside = false): LoadedSettings {
	return loadSettings({
		env: processEnvironment(),
		envFile,
		beside,
		cwd: process.cwd(),
		hostname: hostname(),
		cpus: availableParallelism(),
		terminal: process.stdout.isTTY === true,
	});
}
