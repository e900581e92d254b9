import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {commandName, type WelcomeInput, welcome} from '../admin/welcome.ts';

type FirstKeys = Omit<WelcomeInput, 'command' | 'inFile'>;

/** The welcome for a terminal. */
export function welcomeLines(made: FirstKeys): string[] {
	return welcome({...made, command: thisCommand(), inFile: false});
}

/**
 * Keeps the welcome, and so the keys, from everybody but the data folder's owner: what is printed off a terminal ends in
 * journals and in the logs of containers. Answers the file; null: one is there already, and its keys are left alone.
 */
export function writeFirstKeys(dataDir: string, made: FirstKeys): string | null {
	const file = join(dataDir, 'first-keys.txt');
	const lines = welcome({...made, command: thisCommand(), inFile: true});
	try {
		writeFileSync(file, `${lines.join('\n')}\n`, {mode: 0o600, flag: 'wx', flush: true});
		return file;
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
			return null;
		}
		throw error;
	}
}

/** How to call this program again. */
export function thisCommand(): string {
	return commandName(process.argv[1] ?? '', process.cwd());
}
