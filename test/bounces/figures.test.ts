import test from 'ava';
import type {ExpectedFile, Verdict} from './expected.ts';
import {figuresOf, type ReadMail, type ReadReport, scoreFile, shortcomings} from './figures.ts';

function fileOf(file: string, ...rows: Array<[recipient: string | null, expected: Verdict]>): ExpectedFile {
	return {
		file,
		recipients: rows.map(([recipient, expected]) => ({
			recipient,
			original_recipient: null,
			expected,
			accept: [expected],
		})),
	};
}

function report(recipient: string | null, type: ReadReport['type'], more: Partial<ReadReport> = {}): ReadReport {
	return {
		recipient,
		originalRecipient: null,
		action: 'failed',
		type,
		suppresses: type === 'permanent',
		category: null,
		status: null,
		code: null,
		rule: null,
		reason: '',
		...more,
	};
}

const dsn = (...reports: ReadReport[]): ReadMail => ({kind: 'dsn', reports});

test('a file is right when each row has a report of its verdict, whatever the case of the address', t => {
	const file = fileOf('a-01.eml', ['Ann@x.example', 'hard'], ['bob@x.example', 'soft']);
	const bob = report('robert@x.example', 'transient', {originalRecipient: 'bob@x.example'});
	t.true(scoreFile(file, dsn(report('ann@X.example', 'permanent'), bob)).right);
	t.false(scoreFile(file, dsn(report('ann@x.example', 'permanent'))).right);
	t.false(scoreFile(file, dsn(report('ann@x.example', 'transient'), bob)).right);
});

test('a report that suppresses an address nobody named makes a file wrong', t => {
	const file = fileOf('a-01.eml', ['ann@x.example', 'soft']);
	const scored = scoreFile(file, dsn(report('ann@x.example', 'transient'), report('x@y.example', 'permanent')));
	t.false(scored.right);
	t.is(scored.others.length, 1);
});

test('a delay counts as soft, a delivery as nothing', t => {
	const delayed = report('ann@x.example', 'transient', {action: 'delayed'});
	const delivered = report('ann@x.example', 'none', {action: 'delivered'});
	t.true(scoreFile(fileOf('a-01.eml', ['ann@x.example', 'soft']), dsn(delayed)).right);
	t.true(scoreFile(fileOf('a-01.eml', ['ann@x.example', 'none']), dsn(delivered)).right);
});

test('the figures tell what fell short: missed, falsely suppressed, suppressed out of nothing, weak families', t => {
	const hard = ['ann@x.example', 'hard'] as [string, Verdict];
	const soft = ['bob@x.example', 'soft'] as [string, Verdict];
	const scored = [
		...[1, 2, 3, 4, 5].map(n =>
			scoreFile(
				fileOf(`weak-0${n}.eml`, hard),
				n > 3 ? {kind: 'other', reports: []} : dsn(report(hard[0], 'permanent')),
			),
		),
		scoreFile(fileOf('soft-01.eml', soft), dsn(report(soft[0], 'permanent'))),
		scoreFile(fileOf('none-01.eml', [null, 'none']), dsn(report(hard[0], 'permanent'))),
	];
	const figures = figuresOf(scored);
	t.deepEqual(figures.recipientFound, {some: 4, of: 6});
	t.deepEqual(figures.missedHard, {some: 2, of: 5});
	t.deepEqual(figures.falseSuppression, {some: 1, of: 1});
	t.deepEqual(figures.fromNone, {some: 1, of: 1});
	t.deepEqual(shortcomings(figures), [
		'recipient found 66.7 % (4 of 6), at least 97 %',
		'false suppression 100.0 % (1 of 1), at most 3 %',
		'missed hard 40.0 % (2 of 5), at most 8 %',
		'suppressions of none 1, not one',
		'family weak 60.0 % (3 of 5), at least 80 %',
	]);
	t.deepEqual(shortcomings(figuresOf(scored.slice(0, 3))), []);
});
