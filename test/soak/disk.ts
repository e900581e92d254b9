import {execFile, execFileSync} from 'node:child_process';
import {rmdirSync, rmSync, truncateSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {promisify} from 'node:util';
import type {Scope} from '../helpers/daemon.ts';
import {freeBytesOf} from './watch.ts';

/**
 * Mounts a file system of its own at the folder: ext4 in a sparse file, for what is written to it goes to a real disk.
 * Needs root.
 */
export function mountDisk(t: Scope, image: string, folder: string, gibibytes: number): void {
	writeFileSync(image, '');
	t.teardown(() => rmSync(image, {force: true}));
	truncateSync(image, gibibytes * 2 ** 30);
	execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', 'lazy_itable_init=1', image]);
	execFileSync('mount', ['-o', 'loop', image, folder]);
	t.teardown(() => void execFileSync('umount', ['--lazy', folder]));
	execFileSync('chmod', ['700', folder]);
	rmdirSync(join(folder, 'lost+found'));
}

const spared = 32 * 2 ** 20;

/** Takes all room that there is. The answer gives it back. */
export async function fillDisk(folder: string): Promise<() => void> {
	const ballast = join(folder, 'ballast');
	await promisify(execFile)('fallocate', ['-l', String(Math.max(1, freeBytesOf(folder) - spared)), ballast]);
	for (const size of [2 ** 20, 4096]) {
		try {
			for (;;) {
				writeFileSync(ballast, Buffer.alloc(size), {flag: 'a'});
			}
		} catch {
			// Full for pieces of this size.
		}
	}
	return () => rmSync(ballast);
}
