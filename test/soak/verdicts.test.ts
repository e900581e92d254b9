import test from 'ava';
import {drawRun} from './picture.ts';
import type {End, Moment, Run, Sample} from './record.ts';
import {judge} from './verdicts.ts';

const seconds = 600;

const calmSample = (at: number): Sample => ({
	...{at, accepted: 100, arrived: 100, refused: 0, away: 0},
	...{answerP50: 5, answerP99: 20, arriveP50: 9, arriveP99: 40, waiting: 3, deferred: 0},
	...{rssMb: 300, heapMb: 40, lagMs: 12, descriptors: 120, walMb: 20, storeMb: 500, freeMb: 4000},
});

const moments: readonly Moment[] = [
	{what: 'restart', from: 100, to: 102},
	{what: 'backup', from: 200, to: 210},
	{what: 'full', from: 330, to: 340},
];

const end: End = {
	...{sent: 60_000, accepted: 59_000, refused: 900, away: 90, unanswered: 10, wrong: 0, late: 0, arrived: 59_005},
	...{lost: 0, arrivedRefused: 0, againByKill: 20, againElse: 0, queued: 0},
	...{descriptorsBefore: 50, descriptorsAfter: 52, walAfterMb: 4, overdue: 100_000, overdueLeft: 0},
	...{exitCodes: [0, 0], errors: {}},
};

function runOf({
	change = sample => sample,
	...more
}: {
	change?: (sample: Sample) => Sample;
	end?: End;
	moments?: readonly Moment[];
}): Run {
	const facts = {began: '2026-11-27T12:00:00Z', seconds, topPerS: 150, perS: 100, past: 1000, cpus: 2, node: 'v20'};
	const samples = Array.from({length: seconds}, (_, at) => change(calmSample(at)));
	return {facts, samples, moments, end, ...more};
}

const failed = (run: Run) => judge(run).flatMap(({name, ok}) => (ok ? [] : [name]));

const from = (at: number, change: Partial<Sample>) => (sample: Sample) =>
	sample.at >= at ? {...sample, ...change} : sample;
const between = (at: number, to: number, change: Partial<Sample>) => (sample: Sample) =>
	sample.at >= at && sample.at <= to ? {...sample, ...change} : sample;

for (const [what, run, names] of [
	['a calm run', {}, []],
	['503 while the disk is full, a large log during a backup', {change: between(331, 342, {refused: 100})}, []],
	['a large log during a backup', {change: between(201, 212, {walMb: 900})}, []],
	['a lost mail', {end: {...end, lost: 1}}, ['nothing lost']],
	['mail that waits for ever', {end: {...end, queued: 1}}, ['nothing lost']],
	['a mail twice', {end: {...end, againElse: 1}}, ['nothing twice']],
	['too many twice after a kill', {end: {...end, againByKill: 65}}, ['nothing twice']],
	['503 at any time', {change: between(400, 400, {refused: 1})}, ['answers']],
	['a refused mail that arrives', {end: {...end, arrivedRefused: 1}}, ['answers']],
	['another status', {end: {...end, wrong: 1}}, ['answers']],
	['memory that grows', {change: from(500, {rssMb: 400})}, ['memory']],
	['descriptors that stay', {end: {...end, descriptorsAfter: 60}}, ['descriptors']],
	['a log that grows', {change: between(500, 501, {walMb: 300})}, ['write-ahead log']],
	['a log that stays', {end: {...end, walAfterMb: 300}}, ['write-ahead log']],
	['old messages of which as many go as come', {end: {...end, overdueLeft: 41_000}}, []],
	['old messages that stay', {end: {...end, overdueLeft: 41_001}}, ['retention']],
	['a stop that waits for its limit', {moments: [{what: 'restart', from: 100, to: 131}]}, ['starts and stops']],
	['a stop that fails', {end: {...end, exitCodes: [0, 1]}}, ['starts and stops']],
] as const) {
	test(`a soak is judged: ${what}`, t => {
		t.deepEqual(failed(runOf(run)), [...names]);
	});
}

test('a soak that was not finished is no success', t => {
	t.deepEqual(failed({...runOf({}), end: null}), ['end']);
});

test('the picture names what was done, and has no gap where the daemon was there', t => {
	const away = (sample: Sample): Sample =>
		sample.at < 100 || sample.at > 110 ? sample : {...sample, rssMb: null, descriptors: null};
	const svg = drawRun(runOf({change: away}));
	for (const name of ['restart', 'backup', 'disk full', 'Memory, MB', 'File descriptors']) {
		t.true(svg.includes(`>${name}<`), name);
	}
	t.notRegex(svg, /NaN|undefined|Infinity/);
	const [descriptors = ''] = [...svg.matchAll(/<path d="([^"]*)"/g)].at(-1)?.slice(1) ?? [];
	t.is(descriptors.split('M').length - 1, 2);
});
