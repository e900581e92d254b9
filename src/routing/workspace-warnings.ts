import type {Knex} from 'knex';
import type {Logger} from 'pino';
import type {Settings} from '../config/settings.ts';
import {listWorkspaces} from '../store/workspaces.ts';

/** What a workspace asks for and the settings do not have, in words for people; empty: all is there. */
function unmetSettings(
	{source_pool: pool, route}: {readonly source_pool: string | null; readonly route: string | null},
	{sourcePools, relays}: Pick<Settings, 'sourcePools' | 'relays'>,
): string[] {
	const noPool = pool !== null && sourcePools.every(({name}) => name !== pool);
	return [
		...(noPool ? [`its source pool ${pool} is not in MAILCTL_SOURCE_POOLS: it sends from all addresses`] : []),
		...(route === 'relay' && relays.length === 0
			? ['its route is relay and MAILCTL_RELAY_URL is not set: its mail goes to the MX hosts']
			: []),
	];
}

/** Logs what workspaces ask for in vain. */
export async function warnOfWorkspaces({
	settings,
	reader,
	logger,
}: {
	readonly settings: Settings;
	readonly reader: Knex;
	readonly logger: Logger;
}): Promise<void> {
	for (const workspace of await listWorkspaces(reader)) {
		for (const problem of unmetSettings(workspace, settings)) {
			logger.warn({event: 'workspace_setting_unknown', workspace: workspace.id}, `${workspace.name}: ${problem}`);
		}
	}
}
