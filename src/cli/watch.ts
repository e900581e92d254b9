import {setTimeout as wait} from 'node:timers/promises';
import {CliError} from './fault.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {harmless} from './terminal-text.ts';

const everyMs = 2000;

export function watchOption(command: CliCommand): CliCommand {
	return command.option('--watch', 'show it again every 2 seconds until Ctrl-C; on a terminal only');
}

/**
 * Draws until Ctrl-C, each time over the lines of the last one and in one write, so that nothing flickers. What does
 * not fit is left out below.
 */
export async function watch({terminal, json}: Session, draw: () => Promise<readonly string[]>): Promise<void> {
	if (terminal.height === null || json) {
		throw new CliError('usage', '--watch needs a terminal', 'leave it out to print once');
	}
	const stop = new AbortController();
	const end = () => stop.abort();
	// Once: a second Ctrl-C ends a read that takes long.
	process.once('SIGINT', end);
	try {
		while (!stop.signal.aborted) {
			const lines = (await draw()).slice(0, terminal.height - 1);
			await terminal.pour(`\x1b[H${harmless(lines.join('\n')).replaceAll('\n', '\x1b[K\n')}\x1b[K\n\x1b[J`);
			await wait(everyMs, undefined, {signal: stop.signal}).catch(() => undefined);
		}
	} finally {
		process.off('SIGINT', end);
	}
}
