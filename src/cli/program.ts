import {readFileSync} from 'node:fs';
import {Command} from 'commander';
import type {Globals, Session} from './session.ts';

/** Does the work of a verb; options as commander gives them, then the arguments. */
type Handler<Options, Args extends readonly Argument[]> = (
	session: Session,
	options: Options,
	...args: Args
) => Promise<void>;

type Argument = string | readonly string[] | undefined;

/** A noun or a verb of the command line. */
export class CliCommand extends Command {
	declare readonly commands: readonly CliCommand[];
	/** How it is called; `--help` ends with it, and docs/reference/cli.md shows it too. */
	example: string | undefined;

	override createCommand(name?: string): CliCommand {
		return new CliCommand(name);
	}

	/** A verb of this noun; `usage` may name arguments (`show <id>`). */
	verb(usage: string, about: string): CliCommand {
		return this.command(usage).description(about);
	}

	sample(example: string): this {
		this.example = example;
		return this.addHelpText('after', `\nExample:\n  ${example}`);
	}

	/** It asks before it does its work. */
	yesOption(): this {
		return this.option('--yes', 'do not ask');
	}

	/** Sets its work: a session around the handler, closed in any case. `makesStore`: without a store, make one. */
	does<Options = object, Args extends readonly Argument[] = []>(
		handler: Handler<Options, Args>,
		{makesStore = () => false}: {readonly makesStore?: (options: Options) => boolean} = {},
	): this {
		return this.action(async (...parameters: unknown[]) => {
			const {Session} = await import('./session.ts');
			const options = parameters.at(-2) as Options;
			const session = new Session(this.optsWithGlobals<Globals>(), makesStore(options));
			try {
				await handler(session, options, ...(parameters.slice(0, -2) as unknown as Args));
			} finally {
				await session.close();
			}
		});
	}
}

/** The bare program: options that every verb knows, and commander's own errors as exceptions. */
export function createProgram(): CliCommand {
	return new CliCommand('mailctl')
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

/** The version of package.json. */
export function version(): string {
	return JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version;
}
