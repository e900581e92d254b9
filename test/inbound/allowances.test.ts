import test from 'ava';
import fc from 'fast-check';
import type {Addressee, Role} from '../../src/inbound/addressee.ts';
import {Allowance, Allowances} from '../../src/inbound/allowances.ts';

const to = (role: Role, recipient: string | null = null): Addressee => ({role, address: 'x@bounces.test', recipient});

function allowing(mails: number, untilRead: () => Promise<void> = () => Promise.resolve()) {
	const allowances = new Allowances({
		each: {mails, bytes: 200 * 1024 ** 2},
		untilRead,
		clock: {monotonic: () => 0},
	});
	return {
		take: (...mail: Parameters<Allowances['take']>) => allowances.take(...mail),
		has: (...mail: Parameters<Allowances['has']>) => allowances.has(...mail),
	};
}

async function countOf(mails: number, addressee: (n: number) => Addressee, client: (n: number) => string) {
	const {take} = allowing(mails);
	let count = 0;
	for (let n = 0; n < 3000; n++) {
		count += (await take([addressee(n)], client(n))) === null ? 0 : 1;
	}
	return count;
}

test('each role has its allowance, by client and in all', async t => {
	const one = () => '192.0.2.1';
	const many = (n: number) => `192.0.2.${n % 250}`;
	t.is(await countOf(30, () => to('feedback'), one), 30);
	t.is(await countOf(30, () => to('feedback'), many), 300);
	t.is(await countOf(1000, () => to('operator'), one), 60);
	t.is(await countOf(1000, () => to('late'), one), 20);
	t.is(await countOf(10, () => to('operator'), one), 10);
	t.is(await countOf(30, n => to('return_path', `rcp_${n}`), one), 300, 'what waits to be read');
	t.is(await countOf(1000, () => to('return_path', 'rcp_1'), many), 100, 'one token');
});

test('mail that proved itself counts for its copy alone', async t => {
	const {take, has} = allowing(1);
	for (let n = 0; n < 100; n++) {
		const share = await take([to('return_path', 'rcp_1'), to('feedback')], 'a');
		t.true(share?.add(100));
		share?.prove(['rcp_1']);
	}
	t.is(await take([to('return_path', 'rcp_1')], 'a'), null);
	t.true(await has(to('return_path', 'rcp_2'), 'a', 1));
	t.true(await has(to('feedback'), 'a', 1));
});

test('a token that is sent to the feedback address counts for its copy too', async t => {
	const {take} = allowing(5);
	async function taken(mails: number, bytes: number, recipient: string) {
		let count = 0;
		for (let n = 0; n < mails; n++) {
			const share = await take([to('feedback')], 'a');
			if (share?.add(bytes)) {
				count++;
				share.prove([recipient]);
			}
		}
		return count;
	}
	t.is(await taken(200, 100, 'rcp_1'), 105, 'a hundred of the copy, and then of the client');
	t.is(
		await countOf(
			5,
			() => to('feedback'),
			() => 'a',
		),
		5,
	);
	const large = allowing(1000);
	let proved = 0;
	for (let n = 0; n < 100; n++) {
		const share = await large.take([to('feedback')], 'a');
		proved += share?.add(8 * 1024 ** 2) ? 1 : 0;
		share?.prove(['rcp_2']);
	}
	t.is(proved, 4 + 25, '32 MiB of the copy, then 200 MiB of the client');
});

test('strangers that use up what all may bring keep nobody away who proved a mail before', async t => {
	const {take, has} = allowing(10);
	(await take([to('feedback')], 'provider'))?.prove(['rcp_1']);
	for (let n = 0; n < 200; n++) {
		await take([to('feedback')], `2001:db8:0:${n.toString(16)}::/64`);
	}
	t.false(await has(to('feedback'), 'stranger', 1));
	t.true(await has(to('feedback'), 'provider', 1));
	t.not(await take([to('feedback')], 'provider'), null);
});

test('of a mail that finds no place for one of its addressees nothing counts', async t => {
	const {take, has} = allowing(1);
	t.not(await take([to('operator')], 'a'), null);
	t.is(await take([to('feedback'), to('operator')], 'a'), null);
	t.true(await has(to('feedback'), 'a', 1));
});

test('who has used up his allowance waits until his mails are read', async t => {
	let read: () => void = () => undefined;
	const untilRead = () =>
		new Promise<void>(resolve => {
			read = resolve;
		});
	const {take, has} = allowing(1, untilRead);
	const share = await take([to('feedback')], 'a');
	const asked = has(to('feedback'), 'a', 1);
	share?.prove(['rcp_1']);
	read();
	t.true(await asked);
});

const hour = 3_600_000;

function allowance(limits: {each?: number; all?: number; eachBytes?: number; allBytes?: number}) {
	const {each = 1e9, all = 1e9, eachBytes = 1e9, allBytes = 1e9} = limits;
	const clock = {now: 0, monotonic: () => clock.now};
	const made = new Allowance({mails: each, bytes: eachBytes}, {mails: all, bytes: allBytes}, clock);
	return {has: made.has.bind(made), take: made.take.bind(made), clock};
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
			const staying: Array<{key: string; bytes: number; share: NonNullable<ReturnType<Allowance['take']>>}> = [];
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
