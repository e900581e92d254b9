import {readFileSync} from 'node:fs';
import {Command} from 'commander';

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
