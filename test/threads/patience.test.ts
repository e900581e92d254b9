import test from 'ava';
import {createPatience} from '../../src/threads/patience.ts';

test('a version whose mails take too long three times in a row rests, then is tried once', t => {
	let now = 0;
	const patience = createPatience({now: () => 0, monotonic: () => now});
	patience.note('slow', false, 500);
	patience.note('slow', false, 500);
	t.false(patience.isSpent('slow'));
	patience.note('slow', false, 500);
	t.true(patience.isSpent('slow'));
	t.false(patience.isSpent('other'));
	now = 10_000;
	t.false(patience.isSpent('slow'));
	patience.note('slow', false, 500);
	t.true(patience.isSpent('slow'), 'at once again');
	now = 20_000;
	patience.note('slow', true, 400);
	patience.note('slow', false, 500);
	t.false(patience.isSpent('slow'), 'one that is made begins anew');
});

test('mails that fail at once hold nobody up', t => {
	const patience = createPatience({now: () => 0, monotonic: () => 0});
	for (let mail = 0; mail < 10; mail++) {
		patience.note('wrong', false, 1);
	}
	t.false(patience.isSpent('wrong'));
});
