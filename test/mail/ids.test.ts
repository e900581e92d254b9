import test from 'ava';
import fc from 'fast-check';
import {createIdSource, createPastIds, idBytes, idFloor, idFromBytes, idTime, isId} from '../../src/mail/ids.ts';

const clockAt = (time: {ms: number}) => ({now: () => time.ms, monotonic: () => 0});

test('ids are well formed, unique and sorted by creation, even if the clock steps back', t => {
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

test('a random part that overflows carries over into the time', t => {
	const newId = createIdSource(clockAt({ms: 1}), size => Buffer.alloc(size, 0xff));
	const [first, second, third] = [newId('evt'), newId('evt'), newId('evt')];
	t.is(first, 'evt_0000000001zzzzzzzzzzzzzzzz');
	t.true(first < second && second < third, `${second} ${third}`);
});

test('a time corresponds to a range of ids', t => {
	const newId = createIdSource(clockAt({ms: 1_780_000_000_000}));
	const id = newId('msg');
	t.true(idFloor('msg', 1_780_000_000_000) <= id && id < idFloor('msg', 1_780_000_000_001));
	t.is(idTime(id), 1_780_000_000_000);
});

test('ids of a past time are consecutive, so that those of one date are adjacent in an index', t => {
	const pastId = createPastIds();
	for (const moment of [Date.UTC(2026, 0, 2), Date.UTC(2025, 0, 1), 0]) {
		const ids = Array.from({length: 1000}, () => pastId('sup', moment));
		t.true(ids.every(id => isId('sup', id) && idTime(id) === moment));
		t.is(new Set(ids).size, ids.length);
		t.deepEqual(ids.toSorted(), ids);
	}
	t.not(createPastIds()('sup', 0), createPastIds()('sup', 0), 'two imports must not meet');
});

test('converts 16 bytes to an id and back', t => {
	fc.assert(
		fc.property(fc.uint8Array({minLength: 16, maxLength: 16}), bytes => {
			const id = idFromBytes('rcp', bytes);
			return isId('rcp', id) && idBytes(id).equals(bytes);
		}),
	);
	t.pass();
});

test('rejects other texts', t => {
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
