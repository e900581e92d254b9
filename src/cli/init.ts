import type {Command} from 'commander';
import {commandName, welcome} from '../admin/welcome.ts';
import {boundPublicUrl} from '../config/derive.ts';
import {example} from './program.ts';
import {action} from './session.ts';

export function initCommand(command: Command): void {
	example(command, 'mailctl init').action(
		action(async session => {
			const settings = session.settings();
			const store = await session.store();
			const {bootstrap} = await import('../admin/bootstrap.ts');
			const made = await bootstrap(store, session.tools, await session.vault());
			const json = made && {
				workspace: made.workspaceId,
				sender: made.sender,
				template: made.templateId,
				keys: {live: made.liveKey, test: made.testKey},
			};
			session.show({data_dir: settings.dataDir, fresh: made !== null, ...json}, () =>
				made
					? [
							...welcome({
								...made,
								url: boundPublicUrl(null, settings.httpListen),
								command: commandName(process.argv[1] ?? '', process.cwd()),
								captures: settings.delivery === 'capture',
							}),
							'',
							`Start the daemon before: ${commandName(process.argv[1] ?? '', process.cwd())} serve`,
						]
					: ['The store has a workspace already: nothing was changed.'],
			);
		}),
	);
}
