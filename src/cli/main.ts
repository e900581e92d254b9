import {closeSync, openSync} from 'node:fs';
import {isatty} from 'node:tty';
import {type Command, CommanderError} from 'commander';
import {mailctl} from './commands.ts';
import {exitCodes, type Report, report} from './fault.ts';
import {harmless} from './terminal-text.ts';

/** Runs one command and sets the process's exit code; ends when the command has. */
export async function main(argv: readonly string[]): Promise<void> {
	quietPipe(process.stdout);
	quietPipe(process.stderr);
	const terminals = [0, 1, 2].filter(fd => isatty(fd));
	if (terminals.length > 0) {
		process.on('exit', () => leaveClosed(terminals));
	}
	const program = await mailctl(argv.slice(2));
	try {
		await program.parseAsync(argv);
	} catch (error) {
		if (error instanceof CommanderError && error.exitCode === 0) {
			return; // --help and --version.
		}
		const {lines, exitCode} = error instanceof CommanderError ? usageReport(error, program, argv) : report(error);
		process.stderr.write(harmless(lines.map(line => `${line}\n`).join('')));
		process.exitCode = exitCode;
	}
}

// `mailctl message list | head` ends the reader before us, a closed terminal says EIO: there is no reader left.
function quietPipe(stream: NodeJS.WriteStream): void {
	stream.on('error', (error: NodeJS.ErrnoException) => {
		if (error.code !== 'EPIPE' && !(error.code === 'EIO' && stream.isTTY)) {
			process.exitCode = exitCodes.io;
		}
	});
}

/**
 * At its end Node sets terminals as it found them, and aborts where one is gone: /dev/null takes the place of such a
 * one.
 */
function leaveClosed(terminals: readonly number[]): void {
	for (const fd of terminals.filter(fd => !isatty(fd))) {
		closeSync(fd);
		openSync('/dev/null', 'r+'); // The lowest number that is free.
	}
}

/** What commander says, in our form: `error: unknown command 'x'\n(Did you mean y?)`. */
function usageReport({code, message}: CommanderError, program: Command, argv: readonly string[]): Report {
	const command = meant(program, argv);
	const help = `see ${command} --help`;
	if (code === 'commander.help') {
		// The help stands above already.
		return {lines: [`mailctl: a command is missing, use one of those above`], exitCode: exitCodes.usage};
	}
	const [first = '', suggestion] = message.split('\n');
	const wrong = first.replace(/^error: /, '').replace(/\.$/, '');
	const fix = suggestion ? suggestion.replace(/^\(Did/, 'did').replace(/\)$/, '') : help;
	return {lines: [`mailctl: ${wrong}, ${fix}`], exitCode: exitCodes.usage};
}

/** The command that the arguments name, as far as it can be made out. */
function meant(program: Command, argv: readonly string[]): string {
	const path = [program.name()];
	let command: Command | undefined = program;
	for (const word of argv.slice(2)) {
		command = command?.commands.find(each => each.name() === word);
		if (!command) {
			break;
		}
		path.push(word);
	}
	return path.join(' ');
}
