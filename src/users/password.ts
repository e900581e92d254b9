import {randomBytes, type ScryptOptions, scrypt, timingSafeEqual} from 'node:crypto';

const leastCharacters = 12;
const mostCharacters = 256;

/** What is wrong with a new password, a clause for people; null: nothing. */
export function passwordFault(password: string, email: string): string | null {
	const length = [...password].length;
	if (length < leastCharacters) {
		return `must have at least ${leastCharacters} characters, such as three or four words`;
	}
	if (length > mostCharacters) {
		return `must have at most ${mostCharacters} characters`;
	}
	return password.toLowerCase().includes(email) ? 'must not contain your e-mail address' : null;
}

type Cost = {readonly N: number; readonly r: number; readonly p: number};

/** One of the settings that OWASP lists as equally strong: of these the one that takes 32 MiB. */
const cost: Cost = {N: 2 ** 15, r: 8, p: 3};
const saltBytes = 16;
const hashBytes = 32;
const form = /^scrypt:(\d+):(\d+):(\d+):([\w-]+):([\w-]+)$/;

/** `scrypt:N:r:p:salt:hash`, the last two in base64url. Null: too many wait. */
export async function hashPassword(password: string, salt: Buffer = randomBytes(saltBytes)): Promise<string | null> {
	const made = await derive(password, salt, cost);
	return made && `scrypt:${cost.N}:${cost.r}:${cost.p}:${salt.toString('base64url')}:${made.toString('base64url')}`;
}

/** Whether it is the password of the hash. Without a hash it takes as long, and is false. Null: too many wait. */
export async function isPassword(password: string, hash: string | null): Promise<boolean | null> {
	const [, N, r, p, salt = '', expected = ''] = form.exec(hash ?? '') ?? [];
	const own = expected === '' ? cost : {N: Number(N), r: Number(r), p: Number(p)};
	const made = await derive(password, Buffer.from(salt, 'base64url'), own);
	const stored = Buffer.from(expected, 'base64url');
	return made && stored.length === made.length && timingSafeEqual(stored, made);
}

/** A derivation takes a third of a second; no request waits for more than these. */
const mostWaiting = 10;
let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

// One after the other: each takes a thread of the pool that SQLite works in, and its memory.
async function derive(password: string, salt: Buffer, cost: Cost): Promise<Buffer | null> {
	if (waiting >= mostWaiting) {
		return null;
	}
	waiting++;
	const made = last.then(() => scryptOf(password, salt, {...cost, maxmem: 256 * cost.N * cost.r}));
	last = made.catch(() => undefined).then(() => waiting--);
	return await made;
}

/** A character is at most two units; one more, so that no longer text is taken for one that fits. */
const mostUnits = mostCharacters * 2 + 1;

// Keyboards compose the same letters in different ways. Of a megabyte of marks that would take minutes.
function scryptOf(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
	const composed = password
		.slice(0, mostUnits)
		.normalize('NFKC')
		.slice(0, mostCharacters * 4);
	return new Promise((resolve, reject) => {
		scrypt(composed, salt, hashBytes, options, (error, made) => (error ? reject(error) : resolve(made)));
	});
}
