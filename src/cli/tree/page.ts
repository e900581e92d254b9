import type {Argument, Command, Option} from 'commander';
import {exampleOf} from '../program.ts';

const exits: ReadonlyArray<readonly [code: number, meaning: string]> = [
	[0, 'done'],
	[64, 'the command line is wrong'],
	[65, 'what it names is wrong: no such thing or file, bad address, broken template'],
	[69, 'not available: no daemon runs, the message was not delivered (`send --wait`)'],
	[74, 'a file or the store cannot be read or written'],
	[75, 'temporary: try again'],
	[78, 'settings or schema'],
	[1, 'anything else'],
];

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

The same as a manual page is \`man mailctl\` where npm installed it, else \`man docs/reference/mailctl.1\`. To complete words with Tab:

\`\`\`sh
mailctl completion bash > /etc/bash_completion.d/mailctl
mailctl completion zsh > /usr/local/share/zsh/site-functions/_mailctl
mailctl completion fish > ~/.config/fish/completions/mailctl.fish
\`\`\`

| exit code | meaning |
|---|---|
${exits.map(([code, meaning]) => `| ${code} | ${meaning} |`).join('\n')}

Every command also takes:

${optionTable(program.options)}

${sections.join('\n')}
This page is made from the code: \`npm run build && node dist/src/cli/tree/write-docs.js\`.
`;
}

function section(heading: string, command: Command): string {
	const name = pathOf(command);
	const words = command.registeredArguments.map(placeOf);
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

/** `<id>`, `[id...]` */
function placeOf(argument: Argument): string {
	const name = argument.variadic ? `${argument.name()}...` : argument.name();
	return argument.required ? `<${name}>` : `[${name}]`;
}

/** `key create` */
function pathOf(command: Command): string {
	const names: string[] = [];
	for (let each: Command | null = command; each?.parent; each = each.parent) {
		names.unshift(each.name());
	}
	return names.join(' ');
}

function optionTable(options: readonly Option[]): string {
	const rows = options.map(option => `| \`${cell(option.flags)}\` | ${cell(meaningOf(option))} |`);
	return `| option | meaning |\n|---|---|\n${rows.join('\n')}`;
}

function meaningOf({description, mandatory, defaultValue}: Option): string {
	const fallback = defaultValue === undefined ? '' : ` (default ${defaultValue})`;
	return description + (mandatory ? ' (required)' : fallback);
}

function cell(text: string): string {
	return text.replaceAll('|', '\\|');
}

/** docs/reference/mailctl.1: the manual page of all commands (man(7)). */
export function manPage(program: Command): string {
	const commands = program.commands.flatMap(each => [
		`.SS "${roff(each.name())}"`,
		sentence(each.description()),
		...(each.commands.length > 0 ? each.commands.flatMap(manSection) : manSection(each).slice(3)),
	]);
	return `${[
		`.\\" Made from the code: npm run docs`,
		'.TH MAILCTL 1 "" mailctl "User Commands"',
		'.SH NAME',
		'mailctl \\- self\\-hosted transactional email: a daemon and its commands',
		'.SH SYNOPSIS',
		'.B mailctl',
		'.RI < noun >',
		'.RI < verb >',
		'.RI [ options ]',
		'.SH DESCRIPTION',
		sentence(program.description()),
		'.PP',
		'Results go to standard output, with \\fB\\-\\-json\\fR as one JSON document.',
		'Errors go to standard error and say what is wrong and how to fix it.',
		'Commands that destroy data ask on a terminal, and need \\fB\\-\\-yes\\fR elsewhere.',
		'.SH OPTIONS',
		'Every command takes these besides its own.',
		...program.options.flatMap(option),
		'.SH COMMANDS',
		...commands,
		'.SH "EXIT STATUS"',
		...exits.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, roff(meaning.replaceAll('`', ''))]),
		'.SH ENVIRONMENT',
		'The settings are variables named \\fBMAILCTL_*\\fR, also read from \\fI.env\\fR in the working directory.',
		'\\fBmailctl config show\\fR prints all of them, with where each value comes from.',
		'.SH FILES',
		'.TP',
		'.I MAILCTL_DATA_DIR',
		'The data folder, by default \\fI./data\\fR: the store, the secrets, captured mail.',
	].join('\n')}\n`;
}

/** A verb: how it is called, what it does, its options, an example. */
function manSection(command: Command): string[] {
	const places = command.registeredArguments.map(placeOf).join(' ');
	return [
		'.TP',
		`.B ${roff(`mailctl ${pathOf(command)}`)}${places && ` \\fR${roff(places)}`}`,
		sentence(command.description()),
		...(command.options.length > 0 ? ['.RS', ...command.options.flatMap(option), '.RE'] : []),
		'.RS',
		'.PP',
		'.EX',
		...(exampleOf(command) ?? '').split('\n').map(roff),
		'.EE',
		'.RE',
	];
}

function option(one: Option): string[] {
	return ['.TP', `.B ${roff(one.flags)}`, roff(meaningOf(one))];
}

function sentence(text: string): string {
	return roff(text.endsWith('.') ? text : `${text}.`);
}

/** What roff would read as its own, as text: hyphens that may be copied, backslashes, a dot or quote that begins a line. */
function roff(text: string): string {
	return text
		.replaceAll('\\', '\\e')
		.replaceAll('-', '\\-')
		.replaceAll(
			/[^\x20-\x7e]/gu,
			character => `\\[u${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}]`,
		)
		.replace(/^(?=[.'])/, '\\&');
}
