import {readFileSync} from 'node:fs';
import {Command} from 'commander';
import {packageFile} from '../kit/program-files.ts';
import type {Globals, Session} from './session.ts';

/** Runs a verb, with the options as commander parsed them, followed by the arguments. */
type Handler<Options, Args extends readonly Argument[]> = (
	session: Session,
	options: Options,
	...args: Args
) => Promise<void>;

type Argument = string | readonly string[] | undefined;

/** A noun or a verb of the command line. */
export class CliCommand extends Command {
	declare readonly commands: readonly CliCommand[];
	/** An example call, shown at the end of `--help` and in docs/reference/cli.md. */
	example: string | undefined;

	override createCommand(name?: string): CliCommand {
		return new CliCommand(name);
	}

	/** Adds a verb to this noun; `usage` may name arguments (`show <id>`). */
	verb(usage: string, about: string): CliCommand {
		return this.command(usage).description(about);
	}

	sample(example: string): this {
		this.example = example;
		return this.addHelpText('after', `\nExample:\n  ${example}`);
	}

	/** Adds `--yes`, for a verb that asks for confirmation. */
	yesOption(): this {
		return this.option('--yes', 'do not ask for confirmation');
	}

	/** Sets the handler, which runs in a session. `makesStore` reports whether to create a missing store. */
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

/** Returns the program without commands: the options of every verb, with commander's errors as exceptions. */
export function createProgram(): CliCommand {
	return new CliCommand('mailctl')
		.description('Transactional email: one daemon that sends, one command that runs it.')
		.version(version())
		.option('--json', 'print one JSON document')
		.option('--wide', 'do not shorten the columns of lists to fit the terminal')
		.option('--workspace <id|name>', 'the workspace, if there are several')
		.option('--env-file <file>', 'read settings from this file instead of .env')
		.option('--as-root', 'open a data folder that belongs to another user')
		.addHelpText('after', '\nExample:\n  mailctl message list --status bounced --since 24h')
		.configureHelp({showGlobalOptions: true, helpWidth: 80})
		.configureOutput({outputError: () => undefined})
		.showSuggestionAfterError()
		.exitOverride();
}

/** Returns the version of package.json. */
export function version(): string {
	return JSON.parse(readFileSync(packageFile('package.json'), 'utf8')).version;
}
