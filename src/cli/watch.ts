import {setTimeout as wait} from 'node:timers/promises';
import {CliError} from './fault.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {escapeControls} from './terminal-text.ts';

const refreshMs = 2000;

export function watchOption(command: CliCommand): CliCommand {
	return command.option('--watch', 'refresh every 2 seconds until Ctrl-C; only on a terminal');
}

/**
 * Redraws until Ctrl-C. Each redraw replaces the previous lines in a single write, to avoid flicker. Lines that do not
 * fit are left out at the bottom.
 */
export async function watch({terminal, json}: Session, draw: () => Promise<readonly string[]>): Promise<void> {
	if (terminal.height === null || json) {
		throw new CliError('usage', '--watch needs a terminal', 'omit it to print once');
	}
	const controller = new AbortController();
	const stop = () => controller.abort();
	// Only the first Ctrl-C is handled: a second one stops the process during a slow read.
	process.once('SIGINT', stop);
	try {
		while (!controller.signal.aborted) {
			const lines = (await draw()).slice(0, terminal.height - 1);
			await terminal.writeText(
				`\x1b[H${escapeControls(lines.join('\n')).replaceAll('\n', '\x1b[K\n')}\x1b[K\n\x1b[J`,
			);
			await wait(refreshMs, undefined, {signal: controller.signal}).catch(() => undefined);
		}
	} finally {
		process.off('SIGINT', stop);
	}
}
