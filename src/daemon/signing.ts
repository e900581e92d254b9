import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';
import {storeTime} from '../mail/time.ts';
import {type DomainSigning, findDkimKeys, findDomainSigning} from '../store/dkim-keys.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {SigningKeyText} from '../threads/maker.ts';

const cached = 1000;
/** A key that becomes active by time alone is noticed within this, milliseconds. */
const freshMs = 60_000;

/** Which keys sign a domain's mail. Cached: asked for every copy. */
export function createSigning(store: Store, vault: Vault, clock: Clock) {
	const domains = new LRUCache<string, Promise<DomainSigning>>({max: cached, ttl: freshMs});
	return {
		async of(domainId: string): Promise<DomainSigning> {
			let found = domains.get(domainId);
			if (!found) {
				found = findDomainSigning(store.reader, domainId, storeTime(clock.now()));
				domains.set(domainId, found);
				found.catch(() => domains.delete(domainId));
			}
			return await found;
		},
		/** The keys themselves, for a maker. */
		async keys(ids: readonly string[]): Promise<SigningKeyText[]> {
			const rows = await findDkimKeys(store.reader, ids);
			return rows.map(({id, domain, selector, algorithm, secret}) => ({
				domain,
				selector,
				algorithm,
				privateKeyPem: vault.open(id, secret),
			}));
		},
		forget: () => domains.clear(),
	};
}

export type Signing = ReturnType<typeof createSigning>;
