import {HOTP, Secret, TOTP} from 'otpauth';

// The parameters that every authenticator app supports, and otpauth's defaults: RFC 6238, SHA-1, 30 seconds, six
// digits.
const secretBytes = 20;

/** Creates a secret for one-time codes, in base32 (RFC 4648 §6) so that people can type it. */
export function createTotpSecret(random: (size: number) => Buffer): string {
	return new Secret({buffer: Uint8Array.from(random(secretBytes)).buffer}).base32;
}

/** Whether a text from a form is a well-formed secret. */
export function isTotpSecret(text: string): boolean {
	return /^[A-Z2-7]{32}$/.test(text);
}

/** Returns the content of the QR code for authenticator apps. */
export function totpUri(secret: string, email: string): string {
	return `otpauth://totp/mailctl:${encodeURIComponent(email)}?secret=${secret}&issuer=mailctl`;
}

/** Returns the time step (RFC 6238 §4). */
export function totpStep(now: number): number {
	return TOTP.counter({timestamp: now});
}

/** Returns the code of a step (RFC 4226 §5.3). */
export function totpCode(secret: string, step: number): string {
	return HOTP.generate({secret: Secret.fromBase32(secret), counter: step});
}

/**
 * Returns the step of a code: the current one, or the one before or after it, since clocks differ (RFC 6238 §5.2).
 * Returns `null` if the code matches none of them.
 */
export function stepOfCode(secret: string, code: string, now: number): number | null {
	const token = code.replace(/[\s-]/g, '');
	const counter = totpStep(now);
	// Check the form first, because otpauth throws if a text of six characters has more than six octets.
	const offset = /^\d{6}$/.test(token)
		? HOTP.validate({token, secret: Secret.fromBase32(secret), counter, window: 1})
		: null;
	return offset === null ? null : counter + offset;
}
