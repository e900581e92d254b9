import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/collections.ts';
import {storeTime} from '../kit/time.ts';
import type {AttemptResult} from '../mail/outcome.ts';
import {reportingProviders} from '../mail/provider.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {smarthostNoteWrite} from '../resources/smarthosts/store.ts';
import type {Context} from './context.ts';

const noteMs = 10 * 60_000;
const maxRemembered = 10_000;

/** Returns a function that records that a relay accepted a message, to notice providers that report nothing. */
export function createRelayUse({store, clock}: Pick<Context, 'store' | 'clock'>) {
	const noted = new LRUCache<string, true>({...atMost(maxRemembered), ttl: noteMs});
	return (workspaceId: string, {outcome, attempts}: AttemptResult): void => {
		const host = attempts.at(-1)?.host ?? null;
		const isAccepted = outcome.kind === 'delivered' || outcome.kind === 'relayed';
		if (!isAccepted || host === null || host === simulatorDomain) {
			return;
		}
		const key = `${workspaceId} ${host}`;
		if (noted.has(key)) {
			return;
		}
		noted.set(key, true);
		const use = {workspaceId, providers: reportingProviders(host), at: storeTime(clock.now())};
		// Nothing depends on this record. If it cannot be written, the next message records it.
		store.writer.submit(smarthostNoteWrite, use).catch(() => noted.delete(key));
	};
}
