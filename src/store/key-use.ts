import type {GroupWrite, Writer} from './engine/writer.ts';

type KeyUse = {readonly keyId: string; readonly at: string};

/**
 * Notes when a key was used, some time later. Nothing that a daemon caches changes by it, so the generation stays. What
 * cannot be written is let go: the key's next use notes it anew.
 */
export function noteKeyUse(writer: Writer, keyId: string, at: string): void {
	writer.submit(keyUseWrite, {keyId, at}).catch(() => undefined);
}

/** Notes uses of keys, the last one of each. */
export const keyUseWrite: GroupWrite<KeyUse, void> = {
	name: 'key_use',
	rank: 9,
	async apply(trx, uses) {
		// In the order of their ids, for two nodes may note the same keys.
		for (const {keyId, at} of uses.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))) {
			await trx('api_keys').where({id: keyId}).update({last_used_at: at});
		}
		return uses.map(() => undefined);
	},
};
