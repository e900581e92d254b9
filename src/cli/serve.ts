import type {Command} from 'commander';
import {commandName, welcome} from '../admin/welcome.ts';
import {example} from './program.ts';
import {toolsOf} from './session.ts';
import {version} from './version.ts';

type Options = {envFile?: string; asRoot?: boolean};

export function serveCommand(command: Command): void {
	example(command, 'mailctl serve').action(async (_options: object, command: Command) => {
		const {envFile, asRoot = false} = command.optsWithGlobals<Options>();
		const [{runDaemon}, {bootstrap}, {createVault}] = await Promise.all([
			import('../daemon/run.ts'),
			import('../admin/bootstrap.ts'),
			import('../store/sealed.ts'),
		]);
		process.exitCode = await runDaemon({
			version: version(),
			envFile,
			asRoot,
			async prepare({store, secrets}, settings) {
				const made = await bootstrap(store, toolsOf(), createVault(secrets));
				return (
					made &&
					(daemon => {
						const lines = welcome({
							...made,
							url: daemon.http ?? daemon.publicUrl,
							command: commandName(process.argv[1] ?? '', process.cwd()),
							captures: settings.delivery === 'capture',
						});
						// Standard output is the log's: one JSON document a line, and never a key.
						process.stderr.write(['', ...lines, '', ''].join('\n'));
					})
				);
			},
		});
	});
}
