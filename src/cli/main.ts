import {closeSync, openSync} from 'node:fs';
import {isatty} from 'node:tty';
import {type Command, CommanderError} from 'commander';
import {mailctl} from './commands.ts';
import {exitCodes, type Report, report} from './fault.ts';
import {escapeControls} from './terminal-text.ts';

/** Runs one command and sets the exit code of the process. Resolves when the command is done. */
export async function main(argv: readonly string[]): Promise<void> {
	ignoreClosedPipe(process.stdout);
	ignoreClosedPipe(process.stderr);
	const terminals = [0, 1, 2].filter(fd => isatty(fd));
	if (terminals.length > 0) {
		process.on('exit', () => replaceClosedTerminals(terminals));
	}
	const program = await mailctl(argv.slice(2));
	try {
		await program.parseAsync(argv);
	} catch (error) {
		if (error instanceof CommanderError && error.exitCode === 0) {
			return; // --help and --version.
		}
		const {lines, exitCode} = error instanceof CommanderError ? usageReport(error, program, argv) : report(error);
		process.stderr.write(escapeControls(lines.map(line => `${line}\n`).join('')));
		process.exitCode = exitCode;
	}
}

// With `mailctl message list | head`, the reader stops before us (EPIPE); a closed terminal reports EIO. In both cases
// there is no reader left, which is not an error.
function ignoreClosedPipe(stream: NodeJS.WriteStream): void {
	stream.on('error', (error: NodeJS.ErrnoException) => {
		if (error.code !== 'EPIPE' && !(error.code === 'EIO' && stream.isTTY)) {
			process.exitCode = exitCodes.io;
		}
	});
}

/** Replaces closed terminals with /dev/null: on exit, Node restores the state of terminals, and aborts if it cannot. */
function replaceClosedTerminals(terminals: readonly number[]): void {
	for (const fd of terminals.filter(fd => !isatty(fd))) {
		closeSync(fd);
		openSync('/dev/null', 'r+'); // Gets the number just closed, because it is the lowest free one.
	}
}

/** Converts an error of commander, `error: unknown command 'x'\n(Did you mean y?)`, to our format. */
function usageReport({code, message}: CommanderError, program: Command, argv: readonly string[]): Report {
	const command = namedCommand(program, argv);
	const help = `see ${command} --help`;
	if (code === 'commander.help') {
		// Commander has already printed the help above.
		return {lines: ['mailctl: a command is missing, use one of those above'], exitCode: exitCodes.usage};
	}
	const [summary = '', suggestion] = message.split('\n');
	const problem = summary.replace(/^error: /, '').replace(/\.$/, '');
	const fix = suggestion ? suggestion.replace(/^\(Did/, 'did').replace(/\)$/, '') : help;
	return {lines: [`mailctl: ${problem}, ${fix}`], exitCode: exitCodes.usage};
}

/** Returns the command that the arguments name, up to the first unknown word. */
function namedCommand(program: Command, argv: readonly string[]): string {
	const path = [program.name()];
	let command: Command | undefined = program;
	for (const word of argv.slice(2)) {
		command = command?.commands.find(child => child.name() === word);
		if (!command) {
			break;
		}
		path.push(word);
	}
	return path.join(' ');
}
