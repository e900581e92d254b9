import type {Command, Option} from 'commander';
import {exampleOf} from './program.ts';

/** docs/reference/cli.md: every command with its options and an example. */
export function cliPage(program: Command): string {
	const sections = program.commands
		.filter(command => command.name() !== 'help')
		.map(command =>
			command.commands.length > 0
				? `## ${command.name()}\n\n${command.description()}.\n\n${command.commands.map(verb => section('###', verb)).join('\n')}`
				: section('##', command),
		);
	return `# Command line

\`mailctl <noun> <verb>\`. With one workspace \`--workspace\` can be left out. Tables are for people; with \`--json\` standard output
is one JSON document and nothing else. Errors go to standard error as \`mailctl: <what is wrong>, <how to mend it>\`.
Commands that destroy data ask on a terminal, and need \`--yes\` elsewhere. Commands work beside a running daemon, which notices a
change within a second.

| exit code | meaning |
|---|---|
| 0 | done |
| 64 | the command line is wrong |
| 65 | what it names is wrong: no such thing, bad address, broken template |
| 69 | not available: no daemon runs, the message was not delivered (\`send --wait\`) |
| 74 | a file or the store cannot be read or written |
| 75 | temporary: try again |
| 78 | settings or schema |
| 1 | anything else |

Every command also takes:

${optionTable(program.options)}

${sections.join('\n')}
This page is made from the code: \`npm run build && node dist/src/cli/write-docs.js\`.
`;
}

function section(heading: string, command: Command): string {
	const name = pathOf(command);
	const words = command.registeredArguments.map(argument => {
		const name = argument.variadic ? `${argument.name()}...` : argument.name();
		return argument.required ? `<${name}>` : `[${name}]`;
	});
	const usage = ['mailctl', name, ...words, ...(command.options.length > 0 ? ['[options]'] : [])].join(' ');
	const options = command.options.length > 0 ? `${optionTable(command.options)}\n\n` : '';
	return `${heading} ${name}

${command.description()}.

\`${usage}\`

${options}\`\`\`
${exampleOf(command)}
\`\`\`
`;
}

function pathOf(command: Command): string {
	const names: string[] = [];
	for (let each: Command | null = command; each?.parent; each = each.parent) {
		names.unshift(each.name());
	}
	return names.join(' ');
}

function optionTable(options: readonly Option[]): string {
	const rows = options.map(({flags, description, mandatory, defaultValue}) => {
		const fallback = defaultValue === undefined ? '' : ` (default ${defaultValue})`;
		return `| \`${cell(flags)}\` | ${cell(description)}${mandatory ? ' (required)' : fallback} |`;
	});
	return `| option | meaning |\n|---|---|\n${rows.join('\n')}`;
}

function cell(text: string): string {
	return text.replaceAll('|', '\\|');
}
