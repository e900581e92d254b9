import {hash} from 'node:crypto';

const bytes = 32;

/** A secret that a link or a cookie carries: 43 characters of base64url. */
export function createToken(random: (size: number) => Buffer): string {
	return random(bytes).toString('base64url');
}

/** What the store keeps of a token: SHA-256, hexadecimal (256 random bits need no slow hash). */
export function tokenHash(token: string): string {
	return hash('sha256', token);
}
