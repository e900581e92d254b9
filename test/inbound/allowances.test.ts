import test from 'ava';
import fc from 'fast-check';
import type {Addressee, Role} from '../../src/inbound/addressee.ts';
import {Allowance, Allowances} from '../../src/net/allowances.ts';

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

test('limits each role per client and in total', async t => {
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

test('counts mail with a valid token against its recipient only', async t => {
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

test('counts mail with a token in a report to the feedback address against its recipient too', async t => {
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

test('still accepts a client that sent a valid report before, once strangers use up the total', async t => {
	const {take, has} = allowing(10);
	(await take([to('feedback')], 'provider'))?.prove(['rcp_1']);
	for (let n = 0; n < 200; n++) {
		await take([to('feedback')], `2001:db8:0:${n.toString(16)}::/64`);
	}
	t.false(await has(to('feedback'), 'stranger', 1));
	t.true(await has(to('feedback'), 'provider', 1));
	t.not(await take([to('feedback')], 'provider'), null);
});

test('counts nothing for a message if one of its addressees is over the limit', async t => {
	const {take, has} = allowing(1);
	t.not(await take([to('operator')], 'a'), null);
	t.is(await take([to('feedback'), to('operator')], 'a'), null);
	t.true(await has(to('feedback'), 'a', 1));
});

test('waits for pending messages to be read before it refuses a client over its limit', async t => {
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

test('limits messages per key and in total, and resets every hour', t => {
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

test('counts bytes as they arrive, per key and in total', t => {
	const {take, has} = allowance({eachBytes: 100, allBytes: 150});
	const [one, other] = [take('a'), take('a')];
	t.true(one?.add(60));
	t.false(other?.add(60), 'both are of one key');
	t.true(other?.add(40));
	t.deepEqual([has('a', 1), has('b', 50), has('b', 51)], [false, true, false]);
	t.false(take('b')?.add(51));
});

test('allows a returned share to be used again, once', t => {
	const {take, has} = allowance({each: 1, eachBytes: 100});
	const share = take('a');
	share?.add(100);
	share?.giveBack();
	share?.giveBack();
	t.true(has('a', 100));
	t.not(take('a'), null);
	t.is(take('a'), null);
});

test('does not credit the next hour for a share from the previous one', t => {
	const {take, clock} = allowance({each: 1});
	const old = take('a');
	clock.now = hour;
	t.not(take('a'), null);
	old?.giveBack();
	t.is(take('a'), null);
});

test('enforces the total limit for any number of keys', t => {
	const {take} = allowance({each: 1, all: 15_000});
	let taken = 0;
	for (let n = 0; n < 40_000; n++) {
		taken += take(`key ${n % 20_000}`) === null ? 0 : 1;
	}
	t.is(taken, 15_000);
});

test('never exceeds a limit, in whichever order messages arrive and shares are returned', t => {
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
