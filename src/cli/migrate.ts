import type {Command} from 'commander';
import {example} from './program.ts';
import {action} from './session.ts';

export function migrateCommand(command: Command): void {
	example(command, 'mailctl migrate').action(
		action(async session => {
			const {migrateStore} = await import('./open-store.ts');
			const applied = await migrateStore(session.storeSettings());
			session.show({applied}, () => [
				...applied.map(name => `applied ${name}`),
				applied.length === 0 ? 'The store is up to date.' : 'The store is up to date now.',
			]);
		}),
	);
}
