import {execFileSync} from 'node:child_process';
import {chmodSync, existsSync, mkdirSync, readdirSync, statSync} from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';
import {temporaryFolder} from '../helpers/databases.ts';

const canKeep = 'enableCompileCache' in module;

function runIn(home: string): string {
	const env = {PATH: process.env.PATH, HOME: home};
	return execFileSync(process.execPath, [path.resolve('bin/mailctl.js'), '--version'], {env, encoding: 'utf8'});
}

test('compiled code is kept in a folder of our own, where Node.js can', async t => {
	const home = await temporaryFolder(t);
	runIn(home);
	const folder = path.join(home, '.cache/mailctl');
	t.is(existsSync(folder), canKeep);
	if (canKeep) {
		t.is(statSync(folder).mode & 0o777, 0o700);
		t.true(readdirSync(folder).length > 0);
	}
});

test('compiled code is neither kept in nor read from a folder that others can write, and a home that is a file does no harm', async t => {
	const home = await temporaryFolder(t);
	const folder = path.join(home, '.cache/mailctl');
	mkdirSync(folder, {recursive: true});
	chmodSync(folder, 0o777);
	t.regex(runIn(home), /^\d/);
	t.deepEqual(readdirSync(folder), []);
	t.regex(runIn(process.execPath), /^\d/);
});
