import test from 'ava';
import fc from 'fast-check';
import {
	createTotpSecret,
	isTotpSecret,
	stepOfCode,
	totpCode,
	totpStep,
	totpUri,
} from '../../../src/resources/users/totp.ts';

const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'; // 12345678901234567890

// RFC 6238 appendix B, SHA-1; of its eight digits the last six.
for (const [seconds, code] of [
	[59, '287082'],
	[1_111_111_109, '081804'],
	[1_111_111_111, '050471'],
	[1_234_567_890, '005924'],
	[2_000_000_000, '279037'],
	[20_000_000_000, '353130'],
] as const) {
	test(`the code at ${seconds} s matches RFC 6238`, t => {
		t.is(totpCode(secret, totpStep(seconds * 1000)), code);
	});
}

test('accepts a code in its step and the adjacent ones, even with spaces', t => {
	const now = 1_111_111_111_000;
	const step = totpStep(now);
	for (const beside of [-1, 0, 1]) {
		t.is(stepOfCode(secret, totpCode(secret, step + beside), now), step + beside);
	}
	t.is(stepOfCode(secret, totpCode(secret, step + 2), now), null);
	t.is(stepOfCode(secret, totpCode(secret, step - 2), now), null);
	t.is(stepOfCode(secret, ' 050 471', now), step);
	t.is(stepOfCode(secret, '', now), null);
	t.is(stepOfCode(secret, '05047é', now), null);
});

test('secrets are 160 random bits in base32', t => {
	t.is(
		createTotpSecret(() => Buffer.from('12345678901234567890')),
		secret,
	);
	t.true(isTotpSecret(secret));
	t.false(isTotpSecret(`${secret}A`));
	t.false(isTotpSecret(secret.toLowerCase()));
	t.is(totpUri(secret, 'a+b@x.test'), `otpauth://totp/mailctl:a%2Bb%40x.test?secret=${secret}&issuer=mailctl`);
});

test('never throws on any text, and any secret yields six-digit codes', t => {
	fc.assert(
		fc.property(
			fc.string(),
			fc.uint8Array({minLength: 20, maxLength: 20}),
			fc.integer({min: 30_000, max: 2 ** 42}),
			(code, bytes, now) => {
				const own = createTotpSecret(() => Buffer.from(bytes));
				const expected = totpCode(own, totpStep(now));
				t.regex(expected, /^\d{6}$/);
				t.is(stepOfCode(own, expected, now) === null, false);
				const step = stepOfCode(own, code, now);
				t.true(step === null || totpCode(own, step) === code.replace(/[\s-]/g, ''));
			},
		),
	);
});
