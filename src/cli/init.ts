import {existsSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {dashboardUrl, listenUrl, localUrl} from '../config/derive.ts';
import {commandName, type WelcomeInput, welcome} from '../resources/workspaces/bootstrap.ts';
import {firstKeysFile, openDataDir} from '../store/data-folder/data-dir.ts';
import {endFirstStart} from '../store/first-starts.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';

export function initCommand(command: CliCommand): void {
	command.sample('mailctl init').does(init, {makesStore: () => true});
}

async function init(session: Session): Promise<void> {
	const settings = session.settings();
	const {dataDir, delivery, httpListen, dashboard} = settings;
	const store = await session.store();
	// With PostgreSQL, the data folder may not exist yet, and the keys may have to be written to it.
	openDataDir({dataDir, asRoot: true});
	const {bootstrap} = await import('../resources/workspaces/bootstrap.ts');
	const created = await bootstrap(store, session.tools, await session.vault(), {
		isCapturing: delivery === 'capture',
		hasDashboard: dashboard,
		isAlone: false,
		hasKeysFile: existsSync(join(dataDir, firstKeysFile)),
	});
	const link = logInLink(settings, created?.signInToken ?? null);
	// With --json, the keys are part of the output, as with `key create`.
	const json = created && {
		workspace: created.workspaceId,
		sender: created.sender,
		template: created.templateId,
		keys: {live: created.liveKey, test: created.testKey},
		link,
	};
	session.show({data_dir: dataDir, fresh: created !== null, ...json}, () => {
		if (!created) {
			return ['The store already has a workspace: nothing was changed.'];
		}
		const keys = {...created, link, url: localUrl(listenUrl(httpListen))};
		const start = `Start the daemon first: ${thisCommand()} serve`;
		if (process.stdout.isTTY) {
			return [...welcomeLines(keys), '', start];
		}
		const file = writeFirstKeys(dataDir, keys);
		return [
			file === null
				? 'The first keys are not shown: remove first-keys.txt and create new keys with mailctl key create.'
				: `The first keys and what to do next are in ${file}, which only its owner can read.`,
			start,
		];
	});
	if (created) {
		await session.write(endFirstStart);
	}
}

type FirstKeys = Omit<WelcomeInput, 'command' | 'isFile'>;

/**
 * Returns the sign-in link for a token, or `null` if there is no token or no dashboard. `bound` is the address at which
 * a daemon serves the dashboard.
 */
export function logInLink(
	settings: Parameters<typeof dashboardUrl>[0],
	token: string | null,
	bound: string | null = null,
): string | null {
	const base = dashboardUrl(settings, bound);
	return token === null || base === null ? null : `${base}/login/${token}`;
}

/** Returns the welcome text for a terminal. */
export function welcomeLines(keys: FirstKeys): string[] {
	return welcome({...keys, command: thisCommand(), isFile: false});
}

/**
 * Writes the welcome text with the keys to a file that only the data folder's owner can read: without a terminal,
 * output ends up in journals and container logs. Returns the file, or `null` if one exists already, which is not
 * overwritten.
 */
export function writeFirstKeys(dataDir: string, keys: FirstKeys): string | null {
	const file = join(dataDir, firstKeysFile);
	const lines = welcome({...keys, command: thisCommand(), isFile: true});
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

/** Returns the command line that runs this program again. */
export function thisCommand(): string {
	return commandName(process.argv[1] ?? '', process.cwd());
}

export function migrateCommand(command: CliCommand): void {
	command.sample('mailctl migrate').does(
		async session => {
			const {migrateStore} = await import('./open-store.ts');
			const applied = await migrateStore(session.storeSettings());
			session.show({applied}, () => [
				...applied.map(name => `applied ${name}`),
				applied.length === 0 ? 'The store is up to date.' : 'The store is up to date now.',
			]);
		},
		{makesStore: () => true},
	);
}
