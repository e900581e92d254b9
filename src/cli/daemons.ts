import {join} from 'node:path';
import {readDaemonFile} from '../data-folder/daemon-file.ts';
import {storeTime} from '../mail/time.ts';
import {isFolderLocked} from '../store/engine/lock.ts';
import {listNodes, silentMs} from '../store/nodes.ts';
import type {Session} from './session.ts';

/** The daemons of a store, as far as the queue depends on them. */
export type Daemons = {
	/** Whether any runs, and whether any of those delivers mail (MAILCTL_ROLES). */
	readonly running: boolean;
	readonly delivering: boolean;
	/** Whether a claim is that of a daemon that lives. */
	readonly lives: (claimedBy: string) => boolean;
	/** For compare-and-set beside them: claims of nodes last seen before this are dead; null: all are alive. */
	readonly silentSince: string | null;
};

/** SQLite has one daemon, which holds the lock of the folder; on PostgreSQL every node says when it was there. */
export async function readDaemons(session: Session): Promise<Daemons> {
	const {dataDir, databaseUrl} = session.storeSettings();
	const silentSince = storeTime(session.tools.clock.now() - silentMs);
	if (databaseUrl === null) {
		const running = await isFolderLocked(join(dataDir, 'daemon.lock'));
		const roles = readDaemonFile(dataDir)?.roles ?? [];
		const delivering = running && (roles.length === 0 || roles.includes('deliver'));
		return {running, delivering, lives: () => running, silentSince: running ? null : silentSince};
	}
	const nodes = await listNodes(await session.reader(), silentSince);
	return {
		running: nodes.length > 0,
		delivering: nodes.some(({roles}) => roles.includes('deliver')),
		lives: claimedBy => nodes.some(({id}) => id === claimedBy),
		silentSince,
	};
}
