import {execFile} from 'node:child_process';
import process from 'node:process';
import test from 'ava';

test('a run whose tests fail ends with another code than 0', async t => {
	const code = await new Promise(resolve => {
		execFile(process.execPath, ['dist/test/run.js', 'dist/test/no-such.test.js'], error => resolve(error?.code ?? 0));
	});
	t.is(code, 1);
});
