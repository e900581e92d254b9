import test from 'ava';
import {findRegressions, readCosts, tolerance} from './guard.ts';

test('the guard names what costs more than recorded, and by how much', t => {
	const limits = {accept: 1, receipt: 5};
	t.deepEqual(findRegressions({accept: 1 + tolerance, receipt: 4}, limits), []);
	t.deepEqual(findRegressions({accept: 1, receipt: 5.5}, limits), [
		'receipt: costs 10 % more CPU time than recorded (5 → 5.5).',
	]);
	t.is(findRegressions({accept: 2, receipt: 10}, limits).length, 2);
});

test('the tree records what a message costs', t => {
	const {accept, receipt} = readCosts();
	t.true(accept > 0 && receipt > accept);
});
