import test from 'ava';
import fc from 'fast-check';
import {createIdSource, createPastIds, idBytes, idFloor, idFromBytes, idTime, isId} from '../../src/mail/ids.ts';

const clockAt = (time: {ms: number}) => ({now: () => time.ms, monotonic: () => 0});

test('ids are well formed, unique, and sort as they were made, also when the clock steps back', t => {
	const time = {ms: Date.UTC(2026, 5, 9)};
	const newId = createIdSource(clockAt(time));
	const ids: string[] = [];
	for (let index = 0; index < 5000; index++) {
		time.ms += index % 100 === 0 ? -500 : index % 7 === 0 ? 1 : 0;
		ids.push(newId('msg'));
	}
	t.true(ids.every(id => isId('msg', id)));
	t.is(new Set(ids).size, ids.length);
	t.deepEqual(ids.toSorted(), ids);
});

test('a random part at its end carries over into the next one', t => {
	const newId = createIdSource(clockAt({ms: 1}), size => Buffer.alloc(size, 0xff));
	const [first, second, third] = [newId('evt'), newId('evt'), newId('evt')];
	t.is(first, 'evt_0000000001zzzzzzzzzzzzzzzz');
	t.true(first < second && second < third, `${second} ${third}`);
});

test('a time is a range of ids', t => {
	const newId = createIdSource(clockAt({ms: 1_780_000_000_000}));
	const id = newId('msg');
	t.true(idFloor('msg', 1_780_000_000_000) <= id && id < idFloor('msg', 1_780_000_000_001));
	t.is(idTime(id), 1_780_000_000_000);
});

test('ids of a past moment count on, so that a million of one date are neighbours in an index', t => {
	const pastId = createPastIds();
	for (const moment of [Date.UTC(2026, 0, 2), Date.UTC(2025, 0, 1), 0]) {
		const ids = Array.from({length: 1000}, () => pastId('sup', moment));
		t.true(ids.every(id => isId('sup', id) && idTime(id) === moment));
		t.is(new Set(ids).size, ids.length);
		t.deepEqual(ids.toSorted(), ids);
	}
	t.not(createPastIds()('sup', 0), createPastIds()('sup', 0), 'two imports must not meet');
});

test('16 bytes and back', t => {
	fc.assert(
		fc.property(fc.uint8Array({minLength: 16, maxLength: 16}), bytes => {
			const id = idFromBytes('rcp', bytes);
			return isId('rcp', id) && idBytes(id).equals(bytes);
		}),
	);
	t.pass();
});

test('other texts are no ids', t => {
	for (const text of [
		'',
		'msg_',
		'msg_0',
		`evt_${'0'.repeat(26)}`,
		`msg_${'u'.repeat(26)}`,
		`msg_${'0'.repeat(27)}`,
	]) {
		t.false(isId('msg', text), text);
	}
});
