import {closeSync, linkSync, mkdirSync, openSync, renameSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {findDisplaced, identifyFiles} from '../../src/kit/open-files.ts';
import {temporaryFolder} from '../helpers/databases.ts';

/** A data folder with an open file, like SQLite's own. */
async function prepare(t: ExecutionContext) {
	const parent = await temporaryFolder(t);
	const [folder, file] = [join(parent, 'data'), join(parent, 'data', 'file')];
	mkdirSync(folder);
	writeFileSync(file, 'content');
	const handle = openSync(file, 'r+');
	t.teardown(() => closeSync(handle));
	return {parent, folder, file, files: identifyFiles([folder, file, join(folder, 'missing')])};
}

test('detects a file that was removed or replaced, even by one with the same content', async t => {
	const {file, files} = await prepare(t);
	t.deepEqual(findDisplaced(files), []);
	rmSync(file);
	t.deepEqual(findDisplaced(files), [{path: file, how: 'removed'}]);
	writeFileSync(file, 'content');
	t.deepEqual(findDisplaced(files), [{path: file, how: 'replaced'}]);
});

test('detects a folder that was moved, and another one in its place', async t => {
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

test('follows a link to the folder, which may be recreated, but not point to another folder', async t => {
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

test('ignores writes, links, new files beside it, and files that may be replaced', async t => {
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
