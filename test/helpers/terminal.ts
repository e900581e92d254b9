import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {resolve} from 'node:path';
import type {ExecutionContext} from 'ava';
import type {Program, Settings} from './daemon.ts';

export type OnTerminal = {
	/** What the terminal showed so far. */
	readonly shown: () => string;
	/** Types a text; `\x03` is Ctrl-C. */
	readonly type: (text: string) => void;
	/** Closes the terminal. */
	readonly close: () => void;
	/** The exit code, 128 + signal where a signal ended the command; all that it showed has come by then. */
	readonly ended: Promise<number | null>;
};

export type TerminalOptions = {
	/** Whether the terminal is the command's own, so that closing it sends SIGHUP. */
	readonly owner: boolean;
	readonly cwd?: string;
	readonly settings?: Settings;
};

/** Starts a command on a real terminal; it is gone, and the command with it, at the end of the test. */
export function startOnTerminal(
	t: ExecutionContext,
	{environment}: Program,
	command: readonly string[],
	{owner, cwd = environment.cwd, settings = {}}: TerminalOptions,
): OnTerminal {
	const child = spawn('python3', [resolve('test/helpers/terminal.py'), owner ? 'owner' : 'guest', ...command], {
		cwd,
		env: {...environment.env, ...settings},
		stdio: ['pipe', 'pipe', 'inherit'],
	});
	let shown = '';
	child.stdout.on('data', chunk => {
		shown += chunk;
	});
	const ended = once(child, 'close').then(() => child.exitCode);
	t.teardown(async () => {
		child.stdin.destroy();
		await ended;
	});
	return {shown: () => shown, type: text => void child.stdin.write(text), close: () => void child.stdin.end(), ended};
}
