import {type Daemons, daemonsOfNodes} from '../admin/why.ts';
import {storeTime} from '../kit/time.ts';
import {silentMs} from '../store/nodes.ts';
import type {DashboardParts} from './parts.ts';

/** Who delivers the mail of this store: with SQLite it is this process, on PostgreSQL every node that lives. */
export async function readDaemons(
	{reader, settings}: Pick<DashboardParts, 'reader' | 'settings'>,
	now: number,
): Promise<Daemons> {
	return settings.databaseUrl === null
		? {running: true, delivering: settings.roles.includes('deliver'), lives: () => true, silentSince: null}
		: await daemonsOfNodes(reader, storeTime(now - silentMs));
}
