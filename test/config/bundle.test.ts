import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';
import {temporaryFolder} from '../helpers/databases.ts';

const {newest} = createRequire(import.meta.url)(path.resolve('bin/program.js')) as {newest: (dist: string) => string};

test('bin starts the bundle, but never one that is older than what tsc wrote', async t => {
	const dist = await temporaryFolder(t);
	const [bundle, fromTsc] = [`${dist}/bundle/cli/main.js`, `${dist}/src/cli/main.js`];
	t.is(newest(dist), fromTsc, 'no bundle was made');
	mkdirSync(path.dirname(bundle), {recursive: true});
	writeFileSync(bundle, '');
	t.is(newest(dist), bundle, 'an installed package has nothing else');
	writeFileSync(`${dist}/.tsbuildinfo`, '');
	utimesSync(bundle, 1000, 1000);
	t.is(newest(dist), fromTsc, 'tsc has run since');
	utimesSync(`${dist}/.tsbuildinfo`, 999, 999);
	t.is(newest(dist), bundle);
});

test('the bundle has every thread that the program starts, and the licence of each library in it', async t => {
	// As deep in the project as dist/bundle, so that it finds what it does not hold.
	const folder = `dist/bundle-${process.pid}`;
	t.teardown(() => execFileSync('rm', ['-r', folder]));
	execFileSync(process.execPath, ['scripts/bundle.js', folder]);
	for (const thread of [
		'threads/maker',
		'threads/sender',
		'threads/reader',
		'threads/poster',
		'threads/writer',
		'render/compile-worker',
	]) {
		t.true(existsSync(`${folder}/${thread}.js`), thread);
	}
	const {main} = await import(path.resolve(folder, 'cli/main.js'));
	t.is(typeof main, 'function');

	const {dependencies} = JSON.parse(readFileSync('package.json', 'utf8')) as {dependencies: Record<string, string>};
	const licences = readFileSync(`${folder}/LICENSES.txt`, 'utf8');
	for (const name of ['fastify', 'knex', 'undici']) {
		t.true(name in dependencies);
		const {version, license} = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
		t.regex(licences, new RegExp(`^${name} ${version.replaceAll('.', '\\.')} \\(${license}\\)\n\n\\S`, 'm'));
	}
});
