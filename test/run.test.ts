import {execFile, execFileSync} from 'node:child_process';
import {mkdirSync, readdirSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';
import {temporaryFolder} from './helpers/databases.ts';

test('a run whose tests fail ends with another code than 0', async t => {
	const code = await new Promise(resolve => {
		execFile(process.execPath, ['dist/test/run.js', 'dist/test/no-such.test.js'], error =>
			resolve(error?.code ?? 0),
		);
	});
	t.is(code, 1);
});

test('a build removes what tsc made of sources that are gone, and nothing else', async t => {
	const folder = await temporaryFolder(t);
	for (const file of [
		...['test/a/kept.ts', 'dist/test/a/kept.js', 'dist/test/a/kept.js.map', 'dist/test/a/asset.js'],
		...['dist/test/b/kept.js', 'dist/test/b/kept.js.map', 'dist/bundle/main.js', 'dist/bundle/main.js.map'],
	]) {
		mkdirSync(path.join(folder, path.dirname(file)), {recursive: true});
		writeFileSync(path.join(folder, file), '');
	}
	execFileSync(process.execPath, [path.resolve('scripts/prune.js')], {cwd: folder});
	const left = (name: string) => readdirSync(path.join(folder, 'dist', name)).toSorted();
	t.deepEqual(left('test/a'), ['asset.js', 'kept.js', 'kept.js.map']);
	t.deepEqual(left('test/b'), []);
	t.deepEqual(left('bundle'), ['main.js', 'main.js.map']);
});
