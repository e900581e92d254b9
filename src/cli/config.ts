import type {Command} from 'commander';
import {ConfigError} from '../config/config-error.ts';
import {type ShownSetting, showSettings} from '../config/show.ts';
import {showPace} from './config-pace.ts';
import {verb} from './program.ts';
import {action} from './session.ts';
import {table} from './table.ts';

export function configCommands(config: Command): void {
	verb(config, 'show', 'Print the effective settings, secrets masked', 'mailctl config show').action(
		action(async session => {
			const loaded = session.loadSettings();
			if (!loaded.ok) {
				throw new ConfigError(loaded.problems);
			}
			const rows = showSettings(loaded);
			session.show(rows, () =>
				table<ShownSetting>(
					[
						{title: 'SETTING', cell: row => row.name},
						{title: 'VALUE', cell: row => row.value, cut: true},
						{title: 'FROM', cell: row => row.source},
					],
					rows,
					session.terminal.width,
				),
			);
		}),
	);

	verb(
		config,
		'pace [domain]',
		'Print how fast mail goes where: the destinations file as it holds, or what holds for a domain',
		'mailctl config pace gmail.com',
	).action(action<object, [string | undefined]>(async (session, _options, domain) => await showPace(session, domain)));

	verb(config, 'check', 'Exit 0 if the settings are good, else 78', 'mailctl config check').action(
		action(async session => {
			const loaded = session.loadSettings();
			if (!loaded.ok) {
				throw new ConfigError(loaded.problems);
			}
			session.show({ok: true}, () => ['The settings are good.']);
		}),
	);
}
