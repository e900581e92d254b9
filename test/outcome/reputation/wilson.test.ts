import test from 'ava';
import fc from 'fast-check';
import {wilsonLowerBound} from '../../../src/outcome/reputation-findings.ts';

// Computed by hand from Wilson's formula (1927), z = 1.959964.
for (const [hits, trials, expected] of [
	[0, 0, 0],
	[0, 100, 0],
	[10, 60, 0.0931],
	[30, 200, 0.1071],
	[25, 200, 0.0862],
	[20, 200, 0.0657],
	[5, 1000, 0.0021],
	[100, 100, 0.963],
] as const) {
	test(`bounds ${hits} in ${trials} at ${expected}`, t => {
		t.true(Math.abs(wilsonLowerBound(hits, trials) - expected) < 0.0001, String(wilsonLowerBound(hits, trials)));
	});
}

test('stays below the rate and approaches it with more trials', t => {
	fc.assert(
		fc.property(fc.nat(5000), fc.integer({min: 1, max: 5000}), (a, b) => {
			const [hits, trials] = [Math.min(a, b), b];
			const bound = wilsonLowerBound(hits, trials);
			const nearer = wilsonLowerBound(hits * 10, trials * 10);
			t.true(bound >= 0 && bound <= hits / trials + 1e-12 && nearer >= bound - 1e-12);
		}),
	);
});

test('treats more hits than trials, possible with late reports, as all of them', t => {
	t.is(wilsonLowerBound(300, 250), wilsonLowerBound(250, 250));
});
