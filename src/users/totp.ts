import {HOTP, Secret, TOTP} from 'otpauth';

// What every app for such codes takes, and otpauth's defaults: RFC 6238 with SHA-1, 30 seconds and six digits.
const secretBytes = 20;

/** A new secret of one-time codes, in base32 (RFC 4648 §6), as people type it. */
export function createTotpSecret(random: (size: number) => Buffer): string {
	return new Secret({buffer: Uint8Array.from(random(secretBytes)).buffer}).base32;
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
	return TOTP.counter({timestamp: now});
}

/** RFC 4226 §5.3. */
export function totpCode(secret: string, step: number): string {
	return HOTP.generate({secret: Secret.fromBase32(secret), counter: step});
}

/**
 * The step that a code is of: now, or one before or after, as clocks differ (RFC 6238 §5.2). Null: of none of these.
 */
export function stepOfCode(secret: string, code: string, now: number): number | null {
	const token = code.replace(/[\s-]/g, '');
	const counter = totpStep(now);
	// otpauth throws where a text of six characters has more than six octets.
	const apart = /^\d{6}$/.test(token)
		? HOTP.validate({token, secret: Secret.fromBase32(secret), counter, window: 1})
		: null;
	return apart === null ? null : counter + apart;
}
