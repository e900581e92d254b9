import test from 'ava';
import {createGarbage} from '../../src/kit/memory.ts';

const hold = () => new WeakRef(Buffer.allocUnsafeSlow(1000));

test.serial('collects garbage once the given number of bytes has been released', async t => {
	const letGo = createGarbage({max: 1000, min: 1});
	const unused = hold();
	letGo(999);
	// A WeakRef created or read in this turn of the event loop keeps its value.
	await new Promise(setImmediate);
	letGo(1);
	await new Promise(setImmediate);
	t.is(unused.deref(), undefined);
	const next = hold();
	await new Promise(setImmediate);
	letGo(999);
	await new Promise(setImmediate);
	t.not(next.deref(), undefined);
});

test.serial('leaves small values to V8', async t => {
	const letGo = createGarbage({max: 1000, min: 600});
	const unused = hold();
	await new Promise(setImmediate);
	letGo(599);
	letGo(599);
	await new Promise(setImmediate);
	t.not(unused.deref(), undefined);
	await new Promise(setImmediate);
	letGo(600);
	letGo(600);
	await new Promise(setImmediate);
	t.is(unused.deref(), undefined);
});
