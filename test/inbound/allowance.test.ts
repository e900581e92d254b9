import test from 'ava';
import fc from 'fast-check';
import {createAllowance, type Share} from '../../src/inbound/allowance.ts';

const hour = 3_600_000;

function allowance(limits: {each?: number; all?: number; eachBytes?: number; allBytes?: number}) {
	const {each = 1e9, all = 1e9, eachBytes = 1e9, allBytes = 1e9} = limits;
	const clock = {now: 0, monotonic: () => clock.now};
	const made = createAllowance({
		each: {mails: each, bytes: eachBytes},
		all: {mails: all, bytes: allBytes},
		windowMs: hour,
		clock,
	});
	return {...made, clock};
}

test('a key may bring its mails, all keys theirs, and the next hour begins anew', t => {
	const {take, has, clock} = allowance({each: 2, all: 3});
	t.deepEqual(
		['a', 'a', 'a', 'b', 'b', 'c'].map(key => take(key) !== null),
		[true, true, false, true, false, false],
	);
	t.false(has('c', 0));
	clock.now = hour;
	t.true(has('a', 0));
	t.not(take('a'), null);
});

test('bytes count as they come, for the key and for all', t => {
	const {take, has} = allowance({eachBytes: 100, allBytes: 150});
	const [one, other] = [take('a'), take('a')];
	t.true(one?.add(60));
	t.false(other?.add(60), 'both are of one key');
	t.true(other?.add(40));
	t.deepEqual([has('a', 1), has('b', 50), has('b', 51)], [false, true, false]);
	t.false(take('b')?.add(51));
});

test('what is given back may be brought again, once', t => {
	const {take, has} = allowance({each: 1, eachBytes: 100});
	const share = take('a');
	share?.add(100);
	share?.giveBack();
	share?.giveBack();
	t.true(has('a', 100));
	t.not(take('a'), null);
	t.is(take('a'), null);
});

test('a share that outlives its hour changes nothing of the next', t => {
	const {take, clock} = allowance({each: 1});
	const old = take('a');
	clock.now = hour;
	t.not(take('a'), null);
	old?.giveBack();
	t.is(take('a'), null);
});

test('however many keys there are, all of them together keep to the limit of all', t => {
	const {take} = allowance({each: 1, all: 15_000});
	let taken = 0;
	for (let n = 0; n < 40_000; n++) {
		taken += take(`key ${n % 20_000}`) === null ? 0 : 1;
	}
	t.is(taken, 15_000);
});

test('in whichever order mails come and are given back, what stays never exceeds a limit', t => {
	const limits = {each: 3, all: 5, eachBytes: 50, allBytes: 80};
	const step = fc.record({key: fc.constantFrom('a', 'b', 'c'), bytes: fc.nat(60), back: fc.boolean()});
	fc.assert(
		fc.property(fc.array(step, {maxLength: 40}), steps => {
			const {take} = allowance(limits);
			const staying: Array<{key: string; bytes: number; share: Share}> = [];
			for (const {key, bytes, back} of steps) {
				const share = take(key);
				if (share !== null) {
					staying.push({key, bytes: share.add(bytes) ? bytes : 0, share});
				}
				if (back) {
					staying.shift()?.share.giveBack();
				}
				const own = staying.filter(one => one.key === key);
				const sum = (some: typeof staying) => some.reduce((total, one) => total + one.bytes, 0);
				const isKept = own.length <= limits.each && staying.length <= limits.all;
				if (!isKept || sum(own) > limits.eachBytes || sum(staying) > limits.allBytes) {
					return false;
				}
			}
			return true;
		}),
	);
	t.pass();
});
