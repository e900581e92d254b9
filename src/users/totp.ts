import {createHmac, timingSafeEqual} from 'node:crypto';

// What every app for such codes takes: RFC 6238 with SHA-1, 30 seconds and six digits.
const stepMs = 30_000;
const digits = 6;
const secretBytes = 20;

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** A new secret of one-time codes, in base32 (RFC 4648 §6), as people type it. */
export function createTotpSecret(random: (size: number) => Buffer): string {
	return encodeBase32(random(secretBytes));
}

/** Whether a text, which comes back from a form, has the form of such a secret. */
export function isTotpSecret(text: string): boolean {
	return /^[A-Z2-7]{32}$/.test(text);
}

/** What a QR code says to an app. */
export function totpUri(secret: string, email: string): string {
	return `otpauth://totp/mailctl:${encodeURIComponent(email)}?secret=${secret}&issuer=mailctl`;
}

/** RFC 6238 §4. */
export function totpStep(now: number): number {
	return Math.floor(now / stepMs);
}

/** RFC 4226 §5.3. */
export function totpCode(secret: string, step: number): string {
	const counter = Buffer.alloc(8);
	counter.writeBigUInt64BE(BigInt(step));
	const mac = createHmac('sha1', decodeBase32(secret)).update(counter).digest();
	const offset = (mac.at(-1) as number) & 0xf;
	return String((mac.readUInt32BE(offset) & 0x7fff_ffff) % 10 ** digits).padStart(digits, '0');
}

/** The step that a code is of: now, or one before or after, as clocks differ (RFC 6238 §5.2). Null: of none of these. */
export function stepOfCode(secret: string, code: string, now: number): number | null {
	const given = Buffer.from(code.replace(/[\s-]/g, ''));
	const current = totpStep(now);
	return (
		[current, current - 1, current + 1].find(step => {
			const expected = Buffer.from(totpCode(secret, step));
			return given.length === expected.length && timingSafeEqual(given, expected);
		}) ?? null
	);
}

function encodeBase32(bytes: Uint8Array): string {
	let [text, value, bits] = ['', 0, 0];
	for (const byte of bytes) {
		value = ((value << 8) | byte) & 0xfff;
		bits += 8;
		for (; bits >= 5; bits -= 5) {
			text += alphabet[(value >>> (bits - 5)) & 31];
		}
	}
	return bits > 0 ? text + alphabet[(value << (5 - bits)) & 31] : text;
}

function decodeBase32(text: string): Buffer {
	const bytes: number[] = [];
	let [value, bits] = [0, 0];
	for (const character of text) {
		value = ((value << 5) | alphabet.indexOf(character)) & 0xfff;
		bits += 5;
		if (bits >= 8) {
			bits -= 8;
			bytes.push((value >>> bits) & 0xff);
		}
	}
	return Buffer.from(bytes);
}
