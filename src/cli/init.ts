import type {Command} from 'commander';
import {boundPublicUrl} from '../config/derive.ts';
import {openDataDir} from '../daemon/data-dir.ts';
import {thisCommand, welcomeLines, writeFirstKeys} from './first-keys.ts';
import {example} from './program.ts';
import {action} from './session.ts';

export function initCommand(command: Command): void {
	example(command, 'mailctl init').action(
		action(async session => {
			const settings = session.settings();
			const {dataDir, delivery, httpListen} = settings;
			const store = await session.store();
			// With PostgreSQL it may not be there yet, and the keys may have to go there.
			openDataDir({dataDir, asRoot: true});
			const {bootstrap} = await import('../admin/bootstrap.ts');
			const captures = delivery === 'capture';
			const made = await bootstrap(store, session.tools, await session.vault(), {captures});
			// Who asks for JSON takes the keys from it, as with `key create`.
			const json = made && {
				workspace: made.workspaceId,
				sender: made.sender,
				template: made.templateId,
				keys: {live: made.liveKey, test: made.testKey},
			};
			session.show({data_dir: dataDir, fresh: made !== null, ...json}, () => {
				if (!made) {
					return ['The store has a workspace already: nothing was changed.'];
				}
				const keys = {...made, url: boundPublicUrl(null, httpListen)};
				const start = `Start the daemon before: ${thisCommand()} serve`;
				if (process.stdout.isTTY) {
					return [...welcomeLines(keys), '', start];
				}
				const file = writeFirstKeys(dataDir, keys);
				return [
					file === null
						? 'The first keys are not shown: remove first-keys.txt and make others with mailctl key create.'
						: `The first keys and what to do next are in ${file}, which only its owner can read.`,
					start,
				];
			});
		}),
	);
}
