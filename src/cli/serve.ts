import {existsSync} from 'node:fs';
import {join} from 'node:path';
import type {Logger} from 'pino';
import {dashboardUrl, localUrl} from '../config/derive.ts';
import type {Settings} from '../config/settings.ts';
import {findUserByEmail} from '../resources/users/store.ts';
import {type Bootstrapped, firstUser} from '../resources/workspaces/bootstrap.ts';
import {firstKeysFile} from '../store/data-folder/data-dir.ts';
import {endFirstStart} from '../store/first-starts.ts';
import {logInLink, thisCommand, welcomeLines, writeFirstKeys} from './init.ts';
import {type CliCommand, version} from './program.ts';
import {createTools, operator} from './session.ts';

/** The addresses on which a daemon listens. */
type Addresses = {readonly http: string | null; readonly admin: string | null; readonly publicUrl: string};

export function serveCommand(command: CliCommand): void {
	command.sample('mailctl serve').action(async (_options: object, command: CliCommand) => {
		const {envFile, asRoot = false} = command.optsWithGlobals<{envFile?: string; asRoot?: boolean}>();
		const [{runDaemon}, {bootstrap}] = await Promise.all([
			import('../daemon/run.ts'),
			import('../resources/workspaces/bootstrap.ts'),
		]);
		process.exitCode = await runDaemon({
			version: version(),
			installed: version,
			envFile,
			asRoot,
			async prepare({store, vault}, settings) {
				const {delivery, dataDir, dashboard, databaseUrl} = settings;
				const created = await bootstrap(store, createTools(store.clock, operator()), vault, {
					isCapturing: delivery === 'capture',
					hasDashboard: dashboard,
					isAlone: databaseUrl === null,
					hasKeysFile: existsSync(join(dataDir, firstKeysFile)),
				});
				const hasFirstUser = (await findUserByEmail(store.reader, firstUser)) !== undefined;
				return async (daemon, logger) => {
					const isShown = created !== null && showFirstKeys(created, settings, daemon, logger) === 'terminal';
					if (!isShown) {
						showDashboard(settings, daemon, hasFirstUser ? firstUser : 'EMAIL');
					}
					if (created) {
						await store.writer.transaction(endFirstStart);
					}
				};
			},
		});
	});
}

/** Shows what the first start created on the terminal, or writes it to a file if there is no terminal. */
function showFirstKeys(
	created: Bootstrapped,
	settings: Settings,
	daemon: Addresses,
	logger: Logger,
): 'terminal' | 'file' {
	const link = logInLink(settings, created.signInToken, daemon.admin);
	const keys = {...created, link, url: localUrl(daemon.http ?? daemon.publicUrl)};
	if (process.stderr.isTTY) {
		process.stderr.write(['', ...welcomeLines(keys), '', ''].join('\n'));
		return 'terminal';
	}
	const file = writeFirstKeys(settings.dataDir, keys);
	const text =
		file === null
			? 'The first keys are not shown because a first-keys.txt from another start exists: create new keys with mailctl key create.'
			: 'The first keys and what to do next are in this file, which only its owner can read.';
	logger.info({event: 'first_keys', file}, text);
	return 'file';
}

/** Prints the dashboard's URL on a terminal, and how to get a sign-in link. */
function showDashboard(settings: Settings, {admin}: Addresses, email: string): void {
	const url = admin === null ? null : dashboardUrl(settings, admin);
	const terminal = [process.stderr, process.stdout].find(({isTTY}) => isTTY);
	if (url !== null) {
		terminal?.write(`\nDashboard: ${url}/\nGet a link to sign in: ${thisCommand()} user link ${email}\n\n`);
	}
}
