import {closeSync, openSync, readFileSync} from 'node:fs';
import {isatty} from 'node:tty';
import {Command, CommanderError} from 'commander';
import {mailctl} from './commands.ts';
import {exitCodes, type Report, report} from './fault.ts';
import {harmless} from './text.ts';

/** A verb's `--help` ends with these; docs/reference/cli.md shows them too. */
const examples = new WeakMap<Command, string>();

export function exampleOf(command: Command): string | undefined {
	return examples.get(command);
}

/** The bare program: options that every verb knows, and commander's own errors as exceptions. */
export function createProgram(): Command {
	return new Command('mailctl')
		.description('Transactional email: one daemon that sends, one command that runs it.')
		.version(version())
		.option('--json', 'print one JSON document')
		.option('--wide', 'lists: whole columns, however wide the terminal is')
		.option('--workspace <id|name>', 'the workspace, where there are several')
		.option('--env-file <file>', 'read settings from this file instead of .env')
		.option('--as-root', 'open a data folder that belongs to another user')
		.addHelpText('after', '\nExample:\n  mailctl message list --status bounced --since 24h')
		.configureHelp({showGlobalOptions: true, helpWidth: 80})
		.configureOutput({outputError: () => undefined})
		.showSuggestionAfterError()
		.exitOverride();
}

/** A verb of a noun; `usage` may name arguments (`show <id>`). */
export function verb(noun: Command, usage: string, about: string, sample: string): Command {
	return example(noun.command(usage).description(about), sample);
}

/** Says how a command is called. */
export function example(command: Command, sample: string): Command {
	examples.set(command, sample);
	return command.addHelpText('after', `\nExample:\n  ${sample}`);
}

/** A verb that asks before it does its work. */
export function yesVerb(noun: Command, usage: string, about: string, sample: string): Command {
	return yesOption(verb(noun, usage, about, sample));
}

export function yesOption(command: Command): Command {
	return command.option('--yes', 'do not ask');
}

/** The version of package.json. */
export function version(): string {
	return JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version;
}

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

/** At its end Node sets terminals as it found them, and aborts where one is gone: /dev/null takes the place of such a one. */
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
	const mend = suggestion ? suggestion.replace(/^\(Did/, 'did').replace(/\)$/, '') : help;
	return {lines: [`mailctl: ${wrong}, ${mend}`], exitCode: exitCodes.usage};
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
