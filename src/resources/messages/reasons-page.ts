import type {DashboardParts} from '../../dashboard/parts.ts';
import {storeTime} from '../../kit/time.ts';
import {type Daemons, daemonsOfNodes, silentMs} from '../../store/nodes.ts';
import {readRecipientFacts} from '../../store/queue/queue-summary.ts';
import {readReasons, type Why} from './why.ts';

/** Returns what delivers the mail of this store: with SQLite this process, with PostgreSQL all live nodes. */
export async function readDaemons(
	{reader, settings}: Pick<DashboardParts, 'reader' | 'settings'>,
	now: number,
): Promise<Daemons> {
	return settings.databaseUrl === null
		? {isRunning: true, isDelivering: settings.roles.includes('deliver'), isAlive: () => true, silentSince: null}
		: await daemonsOfNodes(reader, storeTime(now - silentMs));
}

/** Returns for each of these recipients why no attempt is made now. */
export async function findReasons(
	parts: Pick<DashboardParts, 'reader' | 'settings' | 'ownRetryOf'>,
	recipientIds: readonly string[],
	now: number,
): Promise<Why[]> {
	if (recipientIds.length === 0) {
		return [];
	}
	const {reader, settings, ownRetryOf} = parts;
	const facts = await readRecipientFacts(reader, recipientIds);
	return await readReasons(reader, facts, {now, settings, daemons: await readDaemons(parts, now), ownRetryOf});
}
