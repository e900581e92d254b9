import test from 'ava';
import type {AlertKind, Condition} from '../../../src/mail/alert.ts';
import {judge} from '../../../src/resources/alerts/judge.ts';
import type {KnownCondition} from '../../../src/resources/alerts/store.ts';

const start = Date.parse('2026-06-09T10:00:00.000Z');
const minute = 60_000;
const disk: Condition = {kind: 'disk', subject: 'a', workspaceId: null, detail: 'full', fix: 'empty it'};
const lost: Condition = {...disk, kind: 'node_lost'};
const clock: Condition = {...disk, kind: 'clock'};

type Look = {after: number; seen: readonly Condition[]; unknown?: AlertKind; restarts?: true};

/**
 * Runs checks, each `after` seconds after the one before, and returns what is announced. `restarts` means that the
 * process has restarted before this check.
 */
function play(looks: readonly Look[]) {
	const rows = new Map<string, KnownCondition>();
	const said: string[] = [];
	let now = start;
	let watchedMs = 60 * minute;
	for (const {after, seen, unknown, restarts} of looks) {
		now += after * 1000;
		watchedMs = restarts ? 0 : watchedMs + Math.max(0, after) * 1000;
		const kinds = new Set<AlertKind>((['disk', 'node_lost', 'clock'] as const).filter(kind => kind !== unknown));
		for (const {known, next, news} of judge([...rows.values()], {kinds, conditions: seen}, now, watchedMs)) {
			const {kind} = (next ?? known) as KnownCondition;
			rows.delete(kind);
			if (next !== null) {
				rows.set(kind, next);
			}
			if (news !== null) {
				said.push(`${(now - start) / 1000} ${kind} ${news}`);
			}
		}
	}
	return {said, left: rows.size};
}

const every = (seconds: number, times: number, seen: readonly Condition[]) =>
	Array.from({length: times}, () => ({after: seconds, seen}));

test('announces a condition once and clears it after a minute without it', t => {
	t.deepEqual(play([...every(10, 20, [disk]), ...every(10, 20, [])]).said, ['10 disk began', '250 disk ended']);
});

test('announces a condition only after its minimum duration and drops it if it is shorter', t => {
	t.deepEqual(play([...every(10, 5, [lost]), ...every(10, 20, [])]), {said: [], left: 0});
	t.deepEqual(play(every(10, 10, [lost])).said, ['70 node_lost began']);
});

test('a kind that cannot be checked neither begins nor ends', t => {
	const away = Array.from({length: 60}, () => ({after: 10, seen: [], unknown: 'disk' as const}));
	t.deepEqual(play([...every(10, 3, [disk]), ...away]).said, ['10 disk began']);
});

test('ten restarts of the process neither end a condition nor announce it again', t => {
	const restarts = Array.from({length: 10}, () => [
		{after: 5, seen: [], restarts: true as const},
		{after: 20, seen: []},
		{after: 10, seen: [disk]},
	]);
	t.deepEqual(play([...every(10, 3, [disk]), ...restarts.flat()]).said, ['10 disk began']);
});

test('announces a flapping condition less and less, and anew after hours of calm', t => {
	const flap = [...every(10, 6, [disk]), ...every(10, 12, [])];
	const {said} = play(Array.from({length: 60}, () => flap).flat());
	t.true(said.length <= 4, said.join('\n'));
	const calm = play([...flap, ...every(600, 60, []), ...flap]);
	t.deepEqual(
		calm.said.map(line => line.split(' ').at(-1)),
		['began', 'ended', 'began', 'ended'],
	);
});

test('announces a clock set back after one sighting, and still ends other conditions', t => {
	const setBack = {after: -3600, seen: [disk, lost, clock]};
	const {said} = play([...every(10, 8, [disk]), setBack, ...every(10, 8, [disk, lost]), ...every(10, 8, [])]);
	t.deepEqual(
		said.map(line => line.slice(line.indexOf(' ') + 1)),
		['disk began', 'clock began', 'node_lost began', 'clock ended', 'disk ended', 'node_lost ended'],
	);
	const gone = play([...every(10, 2, [disk]), {after: -3600, seen: []}]).said;
	t.deepEqual(gone, ['10 disk began', '-3580 disk ended'], 'not after an hour only');
});
