import test from 'ava';
import {defaultReputationLimits as limits} from '../../../src/mail/reputation.ts';
import {findFindings, isCalm, pauseReason} from '../../../src/outcome/reputation-findings.ts';

const none = {attempted: 0, hard: 0, delivered: 0, complained: 0};

/** The level of the same figures in both windows. */
function levelOf(figures: Partial<typeof none>): string {
	const whole = {...none, ...figures};
	return findFindings({day: whole, week: whole}, limits)[0]?.level ?? 'fine';
}

for (const [hard, attempted, expected] of [
	[10, 60, 'fine'],
	[60, 60, 'fine'],
	[199, 199, 'fine'],
	[30, 200, 'pause'],
	[25, 200, 'pause'],
	[20, 200, 'pause'],
	[19, 200, 'warn'],
	[10, 200, 'warn'],
	[9, 200, 'fine'],
	[99, 1000, 'warn'],
	[100, 1000, 'pause'],
	[49, 1000, 'fine'],
	[300, 250, 'pause'],
	[0, 0, 'fine'],
] as const) {
	test(`${hard} hard bounces of ${attempted}: ${expected}`, t => {
		t.is(levelOf({attempted, hard}), expected);
	});
}

for (const [complained, delivered, expected] of [
	[999, 999, 'fine'],
	[2, 1000, 'fine'],
	[3, 1000, 'warn'],
	[4, 1000, 'warn'],
	[5, 1000, 'pause'],
	[3, 3000, 'warn'],
	[3, 3001, 'fine'],
	[50, 10_000, 'pause'],
	[49, 10_000, 'warn'],
] as const) {
	test(`${complained} complaints of ${delivered}: ${expected}`, t => {
		t.is(levelOf({delivered, complained}), expected);
	});
}

test('only warns about a rate above the pause limit that may be due to chance', t => {
	const close = {warn: {bounces: 0.09, complaints: 0.001}, pause: {bounces: 0.1, complaints: 0.005}};
	const few = {...none, attempted: 200, hard: 22};
	t.is(findFindings({day: few, week: few}, close)[0]?.level, 'warn', 'at least 7.4 %');
	const many = {...none, attempted: 20_000, hard: 2200};
	t.is(findFindings({day: many, week: many}, close)[0]?.level, 'pause', 'at least 10.6 %');
});

test('judges each window and each kind separately, and lists pauses first', t => {
	const week = {attempted: 10_000, hard: 600, delivered: 9000, complained: 45};
	const day = {...none, attempted: 200, hard: 40};
	const findings = findFindings({day, week}, limits);
	t.deepEqual(
		findings.map(({level, kind, span}) => `${level} ${kind} ${span}`),
		['pause bounces day', 'pause complaints week', 'warn bounces week'],
	);
	t.is(
		pauseReason(findings),
		'reputation: 40 of 200 bounced in 24 hours (20%, limit 10%); 45 of 9000 complained in 7 days (0.5%, limit 0.5%)',
	);
	t.deepEqual(findFindings({day: none, week: none}, limits), []);
});

test('ends a warning below four fifths of its limit or with too few messages', t => {
	const calm = (figures: Partial<typeof none>) => isCalm({day: none, week: {...none, ...figures}}, limits);
	t.false(calm({attempted: 1000, hard: 49}), 'no longer warned of, not yet fine');
	t.false(calm({attempted: 1000, hard: 41}));
	t.true(calm({attempted: 1000, hard: 39}));
	t.true(calm({attempted: 199, hard: 100}));
	t.false(calm({delivered: 10_000, complained: 9}));
	t.true(calm({delivered: 10_000, complained: 7}));
});
