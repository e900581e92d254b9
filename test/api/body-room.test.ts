import test from 'ava';
import {BodyRoom, type Reservation} from '../../src/api/body-room.ts';
import {waitFor} from '../helpers/wait.ts';

const patient = {bytes: 100, waiting: 2, waitMs: 600_000};

function enterer(room: BodyRoom) {
	const told: string[] = [];
	const enter = (owner: string, name: string) =>
		room.enter(owner, {go: () => told.push(`go ${name}`), giveUp: () => told.push(`no ${name}`)}) as Reservation;
	return {told, enter};
}

test('the first body may exceed the room; the others wait in order until it leaves', t => {
	const {told, enter} = enterer(new BodyRoom(patient));
	const [a, b, c] = [enter('x', 'a'), enter('y', 'b'), enter('z', 'c')];
	t.true(b.grow(50));
	t.true(a.grow(90));
	t.false(c.grow(1));
	t.true(a.grow(500));
	t.false(b.grow(1));
	t.deepEqual(told, []);
	a.leave();
	t.deepEqual(told, ['go b', 'go c']);
	t.true(b.grow(400));
	b.leave();
	b.leave();
	t.true(c.grow(1000));
	c.leave();
});

test('one owner can use half of the room', t => {
	const {told, enter} = enterer(new BodyRoom(patient));
	const [a, b, other] = [enter('x', 'a'), enter('x', 'b'), enter('y', 'other')];
	t.true(a.grow(40));
	t.true(b.grow(10));
	t.false(b.grow(1));
	t.true(other.grow(49));
	a.leave();
	t.deepEqual(told, ['go b']);
	b.leave();
	other.leave();
});

test('a slow body does not hold up the others', t => {
	const {enter} = enterer(new BodyRoom(patient));
	const slow = enter('x', 'slow');
	t.true(slow.grow(1));
	for (let n = 0; n < 20; n++) {
		const quick = enter('x', 'quick');
		t.true(quick.grow(49));
		quick.leave();
	}
	slow.leave();
});

test('limits how many bodies wait and for how long', async t => {
	const room = new BodyRoom({...patient, waitMs: 1});
	const {told, enter} = enterer(room);
	const first = enter('x', 'first');
	t.true(first.grow(200));
	const [a, b] = [enter('y', 'a'), enter('z', 'b')];
	t.false(a.grow(1));
	t.false(b.grow(1));
	t.is(enter('y', 'c'), null as unknown as Reservation);
	await waitFor('they give up', () => told.length === 2);
	t.deepEqual(told, ['no a', 'no b']);
	a.leave();
	t.not(enter('y', 'c'), null as unknown as Reservation);
});

test('one owner can use half of the waiting places', t => {
	const {told, enter} = enterer(new BodyRoom({...patient, waiting: 4}));
	const first = enter('x', 'first');
	t.true(first.grow(200));
	const waiting = ['a', 'b'].map(name => enter('y', name));
	t.deepEqual(
		waiting.map(place => place.grow(1)),
		[false, false],
	);
	t.is(enter('y', 'c'), null as unknown as Reservation);
	const other = enter('z', 'other');
	t.false(other.grow(1));
	first.leave();
	t.deepEqual(told, ['go a', 'go b', 'go other']);
	for (const place of [...waiting, other]) {
		place.leave();
	}
});

test('a body that resumes and waits again stays within one time limit in total', async t => {
	const {told, enter} = enterer(new BodyRoom({...patient, waitMs: 1}));
	const [first, late, other] = [enter('x', 'first'), enter('y', 'late'), enter('z', 'other')];
	t.true(first.grow(100));
	t.false(late.grow(1));
	first.leave();
	t.deepEqual(told, ['go late']);
	t.true(late.grow(200));
	t.false(other.grow(1));
	await waitFor('the limit is over', () => told.includes('no other'));
	other.leave();
	const second = enter('v', 'second');
	t.false(second.grow(1));
	t.true(late.grow(200));
	late.leave();
	t.deepEqual(told, ['go late', 'no other', 'go second']);
});
