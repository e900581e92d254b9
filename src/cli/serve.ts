import {localUrl} from '../config/derive.ts';
import {logInLink, welcomeLines, writeFirstKeys} from './init.ts';
import {type CliCommand, version} from './program.ts';
import {operator, toolsOf} from './session.ts';

export function serveCommand(command: CliCommand): void {
	command.sample('mailctl serve').action(async (_options: object, command: CliCommand) => {
		const {envFile, asRoot = false} = command.optsWithGlobals<{envFile?: string; asRoot?: boolean}>();
		const [{runDaemon}, {bootstrap}] = await Promise.all([import('../daemon/run.ts'), import('../admin/bootstrap.ts')]);
		process.exitCode = await runDaemon({
			version: version(),
			installed: version,
			envFile,
			asRoot,
			async prepare({store, vault}, settings) {
				const {delivery, dataDir, dashboard} = settings;
				const tools = toolsOf(store.clock, operator());
				const made = await bootstrap(store, tools, vault, {captures: delivery === 'capture', dashboard});
				return (
					made &&
					((daemon, logger) => {
						const link = logInLink(settings, made.logInToken, daemon.admin);
						const keys = {...made, link, url: localUrl(daemon.http ?? daemon.publicUrl)};
						if (process.stderr.isTTY) {
							process.stderr.write(['', ...welcomeLines(keys), '', ''].join('\n'));
							return;
						}
						const file = writeFirstKeys(dataDir, keys);
						const text =
							file === null
								? 'The first keys are not shown, as first-keys.txt of another start is there: mailctl key create makes others.'
								: 'The first keys and what to do next are in this file, which only its owner can read.';
						logger.info({event: 'first_keys', file}, text);
					})
				);
			},
		});
	});
}
