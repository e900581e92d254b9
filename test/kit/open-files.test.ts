import {closeSync, linkSync, mkdirSync, openSync, renameSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {findDisplaced, identifyFiles} from '../../src/kit/open-files.ts';
import {temporaryFolder} from '../helpers/databases.ts';

/** A data folder with a file that is open, as SQLite keeps its own. */
async function prepare(t: ExecutionContext) {
	const parent = await temporaryFolder(t);
	const [folder, file] = [join(parent, 'data'), join(parent, 'data', 'file')];
	mkdirSync(folder);
	writeFileSync(file, 'content');
	const handle = openSync(file, 'r+');
	t.teardown(() => closeSync(handle));
	return {parent, folder, file, files: identifyFiles([folder, file, join(folder, 'missing')])};
}

test('a file that was removed or replaced is found, also one with the same content', async t => {
	const {file, files} = await prepare(t);
	t.deepEqual(findDisplaced(files), []);
	rmSync(file);
	t.deepEqual(findDisplaced(files), [{path: file, how: 'removed'}]);
	writeFileSync(file, 'content');
	t.deepEqual(findDisplaced(files), [{path: file, how: 'replaced'}]);
});

test('a folder that was moved is found, and so is another one in its place', async t => {
	const {parent, folder, file, files} = await prepare(t);
	renameSync(folder, join(parent, 'moved'));
	t.deepEqual(findDisplaced(files), [
		{path: folder, how: 'removed'},
		{path: file, how: 'removed'},
	]);
	mkdirSync(folder);
	t.deepEqual(findDisplaced(files)[0], {path: folder, how: 'replaced'});
	rmSync(folder, {recursive: true});
	renameSync(join(parent, 'moved'), folder);
	t.deepEqual(findDisplaced(files), []);
});

test('a link to the folder is followed: it may be set anew, but not to another folder', async t => {
	const {parent, folder} = await prepare(t);
	const [link, other] = [join(parent, 'link'), join(parent, 'other')];
	symlinkSync(folder, link);
	const files = identifyFiles([link, join(link, 'file')]);
	rmSync(link);
	symlinkSync(folder, link);
	t.deepEqual(findDisplaced(files), []);
	mkdirSync(other);
	rmSync(link);
	symlinkSync(other, link);
	t.deepEqual(findDisplaced(files)[0], {path: link, how: 'replaced'});
});

test('what is written, linked or added beside does not matter, nor does a file that may be replaced', async t => {
	const {folder, file, files} = await prepare(t);
	const all = [...files, {path: join(folder, 'keys'), identity: null}];
	writeFileSync(join(folder, 'keys'), 'one');
	writeFileSync(file, 'more', {flag: 'a'});
	linkSync(file, join(folder, 'second name'));
	t.deepEqual(findDisplaced(all), []);
	writeFileSync(join(folder, 'draft'), 'two');
	renameSync(join(folder, 'draft'), join(folder, 'keys'));
	t.deepEqual(findDisplaced(all), []);
	rmSync(join(folder, 'keys'));
	t.deepEqual(findDisplaced(all), [{path: join(folder, 'keys'), how: 'removed'}]);
});
