import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {cp, mkdir, mkdtemp, readdir, readFile, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {foldersBeside} from '../helpers/beside.ts';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';

const run = promisify(execFile);
const limit = 600_000;
const maxMegabytes = 120;

async function folderFor(t: ExecutionContext): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), 'mailctl-install-'));
	t.teardown(() => rm(folder, {recursive: true, force: true}));
	return folder;
}

/** A copy of the checkout; `npm pack` changes package.json for a moment, and other tests read it. */
async function checkout(t: ExecutionContext): Promise<string> {
	const folder = await folderFor(t);
	const {stdout} = await run('git', ['ls-files'], {encoding: 'utf8'});
	for (const path of stdout.split('\n').filter(path => path !== '' && !path.startsWith('test/'))) {
		await cp(path, join(folder, path), {preserveTimestamps: true});
	}
	return folder;
}

test.serial('the package installs without a registry, with the versions of the lock file, and sends', async t => {
	const folder = await checkout(t);
	await cp('dist/bundle', join(folder, 'dist/bundle'), {recursive: true, preserveTimestamps: true});
	const tested = await foldersBeside();
	for (const path of tested) {
		await cp(path, join(folder, path), {recursive: true});
	}
	const before = await readFile(join(folder, 'package.json'), 'utf8');
	await run('npm', ['pack'], {cwd: folder, timeout: limit});
	t.is(await readFile(join(folder, 'package.json'), 'utf8'), before);
	const [tarball = ''] = (await readdir(folder)).filter(name => name.endsWith('.tgz'));

	const prefix = join(await folderFor(t), 'prefix');
	await mkdir(prefix);
	const options = ['--offline', '--ignore-scripts', '--prefix', prefix];
	await run('npm', ['install', ...options, join(folder, tarball)], {timeout: limit});
	const installed = join(prefix, 'node_modules/mailctl');
	// In the place of sqlite3's own script, which fetches it or compiles it for minutes.
	const driver = 'node_modules/sqlite3/build/Release/node_sqlite3.node';
	await cp(driver, join(installed, driver));
	const {packages} = JSON.parse(await readFile('package-lock.json', 'utf8'));
	for (const path of tested) {
		const {version} = JSON.parse(await readFile(join(installed, path, 'package.json'), 'utf8'));
		t.is(version, packages[path].version, path);
	}
	const inBundle = ['fastify', 'knex', 'mjml'].filter(name => existsSync(join(prefix, 'node_modules', name)));
	t.deepEqual(inBundle, [], 'what the bundle holds is not installed beside it');
	t.true(existsSync(join(installed, 'dist/bundle/sbom.cdx.json')));
	const {stdout: size} = await run('du', ['-sm', prefix]);
	t.true(Number.parseInt(size, 10) < maxMegabytes, size);

	const bin = join(prefix, 'node_modules/.bin/mailctl');
	const {version} = JSON.parse(before);
	t.is((await run(bin, ['--version'])).stdout.trim(), version);
	const program = await prepareProgram(t, {}, bin);
	const daemon = await program.serve();
	const {from, templateId} = await welcomeOf(program);
	const send = await program.run(
		'send',
		'--from',
		from,
		'--to',
		'you@example.org',
		'--template',
		templateId,
		'--wait',
	);
	t.is(send.code, 0, send.stderr);
	// What the bundle does not hold, and MJML, which it does.
	t.is((await fetch(`${daemon.url}/docs/static/swagger-ui-bundle.js`)).status, 200);
	t.is((await program.run('template', 'push', join(installed, 'config/sample-template'))).code, 0);
	t.is(await daemon.stop(), 0);
});

test.serial('a checkout that is not built and lacks development packages says what to run', async t => {
	const folder = await checkout(t);
	const {stdout} = await run(process.execPath, ['scripts/prepare.js'], {cwd: folder});
	t.regex(stdout, /run npm ci/);
	await t.throwsAsync(run(process.execPath, ['bin/mailctl.js', '--version'], {cwd: folder}), {
		message: /run npm ci/,
		code: 69,
	});
});
