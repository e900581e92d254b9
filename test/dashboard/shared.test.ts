import test from 'ava';
import {createShared, sharedMs} from '../../src/dashboard/shared.ts';

const opens = {request: {headers: {}}};
const follows = {request: {headers: {'hx-request': 'true'}}};

/** What is read are numbers: how many reads there were before. Each takes so long. */
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

test('pages that follow share an answer for a moment, and who opens a page gets a new one', async t => {
	const {look, pass} = reading(5);
	t.is(await look(follows), 0);
	pass(sharedMs - 6);
	t.is(await look(follows), 0);
	t.is(await look(follows, 'other'), 1);
	t.is(await look(opens), 2);
	pass(6);
	t.is(await look(follows), 3);
});

test('what takes long to count is counted for a small part of the time, however many pages follow', async t => {
	const {look, pass} = reading(500, 20);
	t.is(await look(follows), 0);
	pass(20 * 500 - 1);
	t.is(await look(follows), 0);
	t.is(await look(opens), 1, 'who acts sees what came of it');
	pass(1);
	t.is(await look(follows), 2);
});

test('a failure is shared with nobody who asks later', async t => {
	const shared = createShared({monotonic: () => 0}, 20);
	await t.throwsAsync(shared(follows, 'shop', () => Promise.reject(new Error('gone'))));
	t.is(await shared(follows, 'shop', async () => 1), 1);
});
