import {execFileSync} from 'node:child_process';
import {mkdirSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {openRegular, readFileWithOwner, readRegular, readSettingFile} from '../../src/kit/regular-file.ts';
import {temporaryFolder} from '../helpers/databases.ts';

test('reads only regular files, without blocking', async t => {
	const folder = await temporaryFolder(t);
	const [file, link, fifo] = [join(folder, 'file'), join(folder, 'link'), join(folder, 'fifo')];
	writeFileSync(file, 'text');
	symlinkSync(file, link);
	execFileSync('mkfifo', [fifo]);
	mkdirSync(join(folder, 'folder'));
	const refusals = {
		'/dev/zero': 'is not a regular file',
		'/dev/null': 'is not a regular file',
		[fifo]: 'is not a regular file',
		[join(folder, 'folder')]: 'is a folder',
	};
	for (const [path, why] of Object.entries(refusals)) {
		const expected = {code: 'FILE_REFUSED', message: `${path} ${why}`};
		await t.throwsAsync(readRegular(path, 100, 'follow'), expected);
		await t.throwsAsync(openRegular(path, 'refuse'), expected);
		t.throws(() => readSettingFile(path), expected);
	}
	await t.throwsAsync(readRegular(link, 100, 'refuse'), {
		code: 'FILE_REFUSED',
		message: `${link} is a symbolic link, not a regular file`,
	});
	t.is((await readRegular(link, 100, 'follow')).toString(), 'text');
	t.is(readSettingFile(link).toString(), 'text');
	await t.throwsAsync(readRegular(join(folder, 'none'), 100, 'refuse'), {code: 'ENOENT'});
});

test('limits the size of a file, even if the system does not report it', async t => {
	const folder = await temporaryFolder(t);
	const file = join(folder, 'file');
	writeFileSync(file, Buffer.alloc(200_000, 'x'));
	t.is((await readRegular(file, 200_000, 'refuse')).length, 200_000);
	await t.throwsAsync(readRegular(file, 199_999, 'refuse'), {message: `${file} is longer than 199999 octets`});
	t.true((await readRegular('/proc/self/status', 100_000, 'refuse')).length > 0);
	await t.throwsAsync(readRegular('/proc/self/status', 10, 'refuse'), {code: 'FILE_REFUSED'});
	t.throws(() => readFileWithOwner('/proc/self/status', 10), {code: 'FILE_REFUSED'});
	t.is(readFileWithOwner(file, 200_000).content.length, 200_000);
	t.throws(() => readFileWithOwner(file, 199_999), {code: 'FILE_REFUSED'});
	writeFileSync(file, Buffer.alloc(5 * 1024 ** 2));
	t.throws(() => readSettingFile(file), {code: 'FILE_REFUSED'});
});
