import test from 'ava';
import fc from 'fast-check';
import {statedWaitMs} from '../../src/deliver/verdict.ts';

const minute = 60_000;

const texts: ReadonlyArray<readonly [text: string, waitMs: number | null]> = [
	['4.7.1 Greylisted, please try again in 300 seconds', 5 * minute],
	['Greylisted for 5 minutes', 5 * minute],
	['Greylisting in action, please come back in 00:05:00', 5 * minute],
	['come back in 02:00:00', 60 * minute],
	['please wait 120s', 2 * minute],
	['try again after 1 hour', 60 * minute],
	['retry in 5 min.', 5 * minute],
	['try again in 5 s', minute],
	['wait at least 600 sec', 10 * minute],
	['please try again later', null],
	['too many messages for 3 recipients', null],
	['blocked for 3 months', null],
	['seen in 2026', null],
	['', null],
];
for (const [text, waitMs] of texts) {
	test(`"${text}" states ${waitMs === null ? 'no wait' : `${waitMs / minute} min`}`, t => {
		t.is(statedWaitMs(text), waitMs);
	});
}

test('returns no wait or one between a minute and an hour, whatever the text', t => {
	const said = fc.oneof(fc.string(), fc.stringMatching(/^in {1,3}\d{1,6} {0,4}[smh]?\w{0,5}$/));
	const property = fc.property(said, text => {
		const wait = statedWaitMs(text);
		return wait === null || (wait >= minute && wait <= 60 * minute);
	});
	t.notThrows(() => fc.assert(property));
});
