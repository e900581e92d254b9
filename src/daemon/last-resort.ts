import {spawn} from 'node:child_process';
import process from 'node:process';
import {processEnvironment} from '../config/process-env.ts';

/** What the end of a process may take when nothing is stuck, with much to spare. */
export const exitSeconds = 20;

/** `read` returns when we end, however we do; its whole group ends with it. */
const script = '(sleep "$1"; kill -KILL "$0") & read -r _; kill 0';

/**
 * Kills this process (SIGKILL) if it is still there after that many seconds. Node waits for every thread at its end, and one
 * that is stuck in a system call never ends; nothing in the process itself is left to run then.
 */
export function killIfStuck(seconds: number): void {
	const child = spawn('/bin/sh', ['-c', script, String(process.pid), String(seconds)], {
		stdio: ['pipe', 'ignore', 'ignore'],
		// A group of its own: what the terminal sends to ours must not end it.
		detached: true,
		// Ours holds secrets.
		env: {PATH: processEnvironment().PATH},
	});
	child.on('error', () => undefined);
	child.stdin.on('error', () => undefined);
	child.unref();
}
