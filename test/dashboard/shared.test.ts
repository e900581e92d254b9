import test from 'ava';
import {createShared, sharedMs} from '../../src/dashboard/shared.ts';

const opens = {request: {headers: {}}};
const follows = {request: {headers: {'hx-request': 'true'}}};

/** Each read returns the number of reads before it and takes so long. */
function reading(takes: number, rest?: number) {
	let [now, reads] = [0, 0];
	const shared = createShared({monotonic: () => now}, rest);
	return {
		pass(ms: number) {
			now += ms;
		},
		look: (visit: typeof opens, name = 'shop') =>
			shared(visit, name, async () => {
				now += takes;
				return reads++;
			}),
	};
}

test('live pages briefly share a result, and opening a page computes a new one', async t => {
	const {look, pass} = reading(5);
	t.is(await look(follows), 0);
	pass(sharedMs - 6);
	t.is(await look(follows), 0);
	t.is(await look(follows, 'other'), 1);
	t.is(await look(opens), 2);
	pass(6);
	t.is(await look(follows), 3);
});

test('spends little of the time on slow counts, however many live pages there are', async t => {
	const {look, pass} = reading(500, 20);
	t.is(await look(follows), 0);
	pass(20 * 500 - 1);
	t.is(await look(follows), 0);
	t.is(await look(opens), 1, 'who acts sees what came of it');
	pass(1);
	t.is(await look(follows), 2);
});

test('does not share a failure with later requests', async t => {
	const shared = createShared({monotonic: () => 0}, 20);
	await t.throwsAsync(shared(follows, 'shop', () => Promise.reject(new Error('gone'))));
	t.is(await shared(follows, 'shop', async () => 1), 1);
});
