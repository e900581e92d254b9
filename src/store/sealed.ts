import {createCipheriv, createDecipheriv, randomBytes} from 'node:crypto';

/** Master keys by id; `current` seals, every one of them opens. */
export type MasterKeys = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

/** Secrets at rest: DKIM keys and webhook secrets are readable only with the key that lives outside the database. */
export type Vault = {
	/** The id of the key that seals. */
	readonly current: () => number;
	/** `owner` (the row's id) is authenticated, so that a sealed value cannot be moved to another row. */
	readonly seal: (owner: string, plain: string) => string;
	/** Throws if the value was sealed by another key, for another owner, or was changed. */
	readonly open: (owner: string, sealed: string) => string;
};

export type VaultOptions = {
	readonly random?: (size: number) => Buffer;
	/** Reads the keys again where a value needs one that is not known: they may have been rotated since. */
	readonly reread?: () => MasterKeys;
};

const ivLength = 12;
const tagLength = 16;

/** AES-256-GCM; the text is `v1.<key id>.<base64url of iv ‖ tag ‖ ciphertext>`. */
export function createVault(first: MasterKeys, {random = randomBytes, reread}: VaultOptions = {}): Vault {
	let {current, keys} = first;
	function keyOf(id: number): Uint8Array {
		if (!Object.hasOwn(keys, id) && reread) {
			const now = reread();
			current = now.current;
			keys = {...keys, ...now.keys};
		}
		if (!Object.hasOwn(keys, id)) {
			throw new Error(`The store holds a secret sealed with key ${id}, which is not among the secret keys.`);
		}
		return keys[id] as Uint8Array;
	}
	return {
		current: () => current,
		seal(owner, plain) {
			const iv = random(ivLength);
			const cipher = createCipheriv('aes-256-gcm', keyOf(current), iv).setAAD(Buffer.from(owner));
			const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
			return `v1.${current}.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')}`;
		},
		open(owner, sealed) {
			const [version, id, body] = sealed.split('.');
			if (version !== 'v1' || id === undefined || body === undefined) {
				throw new Error(`The secret of ${owner} in the store is damaged.`);
			}
			const key = keyOf(Number(id));
			const bytes = Buffer.from(body, 'base64url');
			try {
				const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivLength))
					.setAAD(Buffer.from(owner))
					.setAuthTag(bytes.subarray(ivLength, ivLength + tagLength));
				return decipher.update(bytes.subarray(ivLength + tagLength), undefined, 'utf8') + decipher.final('utf8');
			} catch {
				throw new Error(`The secret of ${owner} in the store is damaged.`);
			}
		},
	};
}
