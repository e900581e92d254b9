import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';
import {foldersBeside} from '../helpers/beside.ts';
import {temporaryFolder} from '../helpers/databases.ts';

const {newest} = createRequire(import.meta.url)(path.resolve('bin/program.js')) as {newest: (dist: string) => string};

type Component = {readonly purl: string; readonly hashes: ReadonlyArray<{readonly content: string}>};

/** Picks the newer program, as bin/mailctl.js does. */
const runs = `require('./bin/program.js').run(process.argv[1], process.argv)`;

test('bin runs the bundle unless the output of tsc is newer', async t => {
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

test('the bundle includes every thread of the program and the license of each library, and lists them all', async t => {
	// At the same depth as dist/bundle, so that it finds the files that it does not include.
	const folder = `dist/bundle-${process.pid}`;
	t.teardown(() => execFileSync('rm', ['-r', folder]));
	execFileSync(process.execPath, ['scripts/bundle.js', folder]);
	for (const thread of [
		'daemon/threads/renderer',
		'daemon/threads/smtp-worker',
		'daemon/threads/reader',
		'daemon/threads/poster',
		'daemon/threads/store-writer',
		'compose/render/compile-worker',
	]) {
		t.true(existsSync(`${folder}/${thread}.js`), thread);
	}
	const kept = () => readdirSync(`${folder}/cli`).filter(file => file.endsWith('.cache'));
	t.is(kept().length, 1, 'what V8 compiled');
	const file = path.resolve(folder, 'cli/main.js');
	const program = readFileSync(file, 'latin1');
	t.notRegex(program, /[^\0-\x7f]/, 'bin/program.js reads it as Latin-1');
	const load = createRequire(file);
	for (const [library, name] of [
		['webauthn', 'verifyRegistrationResponse'],
		['openid', 'authorizationCodeGrant'],
	] as const) {
		t.true(program.includes(`require("../libraries/${library}.cjs")`), library);
		t.is(typeof load(`../libraries/${library}.cjs`)[name], 'function', library);
		t.false(program.includes(`function ${name}(`), `every process would hold ${library}`);
	}
	const version = () => execFileSync(process.execPath, ['-e', runs, file, '--version'], {encoding: 'utf8'});
	const said = version();
	t.regex(said, /^\d+\.\d+\.\d+\n$/);
	const [cache = ''] = kept();
	writeFileSync(`${folder}/cli/${cache}`, 'not what V8 wrote');
	t.is(version(), said, 'V8 refuses it and compiles');
	rmSync(`${folder}/cli/${cache}`);
	t.is(version(), said);
	t.deepEqual(kept(), [cache], 'the next command keeps it again');

	const beside = await foldersBeside();
	const {components} = JSON.parse(readFileSync(`${folder}/sbom.cdx.json`, 'utf8')) as {
		components: readonly Component[];
	};
	const listed = new Map(components.map(component => [component.purl, component]));
	t.is(listed.size, components.length, 'each once');
	const isListed = (name: string, version: string) => {
		const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
		t.regex(`${listed.get(purl)?.hashes[0]?.content}`, /^[\da-f]{128}$/, purl);
	};
	for (const library of beside) {
		const {name, version} = JSON.parse(readFileSync(`${library}/package.json`, 'utf8'));
		isListed(name, version);
	}
	const licences = readFileSync(`${folder}/LICENSES.txt`, 'utf8');
	for (const name of ['fastify', 'knex', 'liquidjs', 'openid-client', '@simplewebauthn/server']) {
		t.false(beside.includes(`node_modules/${name}`), 'what the bundle holds is not installed beside it');
		const {version, license} = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
		isListed(name, version);
		t.regex(licences, new RegExp(`^${name} ${version.replaceAll('.', '\\.')} \\(${license}\\)\n\n\\S`, 'm'));
	}
});
