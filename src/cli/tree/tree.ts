import type {Argument, Command, Option} from 'commander';
import {oneOf} from '../options.ts';
import type {CliCommand} from '../program.ts';

/** A word that can come next, and what it means. */
type Choice = readonly [word: string, about: string];
/** The choices after a path (`key create`), or after a path and an option that takes a value. */
type Branch = {readonly path: string; readonly choices: readonly Choice[]};

/** The tables in which the scripts look up words. They start no process, so completion is immediate. */
type Tables = {
	/** Every path, as the parent path, a space and a word. Paths without a parent begin with the space: ` key`. */
	readonly paths: readonly string[];
	/** Options that take a value, each after its path, or after `*` if every path accepts it: `* --workspace`. */
	readonly valueOptions: readonly string[];
	/** Nouns, verbs, and the words allowed as an argument. */
	readonly names: readonly Branch[];
	readonly options: readonly Branch[];
	/** The words allowed as the value of an option. */
	readonly values: readonly Branch[];
};

const shells = {bash, zsh, fish};

/** Adds the completion command; `load` returns the whole tree of commands. */
export function completionCommand(command: CliCommand, load: () => Promise<CliCommand>): void {
	command
		.sample('mailctl completion bash > /etc/bash_completion.d/mailctl')
		.argument('<shell>', Object.keys(shells).join(', '), oneOf('the shell', Object.keys(shells)))
		.does<object, [keyof typeof shells]>(async ({terminal, json}, _, shell) => {
			const script = shells[shell](toTables(await load()));
			await (json ? terminal.printJson({shell, script}) : terminal.writeText(script));
		});
}

/** Returns the words that the parser of an option or argument accepts. */
function acceptedWords({parseArg}: {readonly parseArg?: unknown}): Choice[] {
	const {choices = []} = (parseArg ?? {}) as {readonly choices?: readonly string[]};
	return choices.map(word => [word, '']);
}

function toTables(program: CliCommand): Tables {
	const help: Choice = ['--help', 'display help'];
	const common = program.options.filter(({long}) => long !== '--version').flatMap(choicesOf);
	const commands = listCommands(program, '');
	const valueOptions = commands.flatMap(({path, command}) =>
		command.options
			.filter(({required}) => required)
			.flatMap(option => flagsOf(option).map(flag => ({path, flag, option}))),
	);
	return {
		paths: commands.slice(1).map(({path}) => (path.includes(' ') ? path : ` ${path}`)),
		valueOptions: valueOptions.map(({path, flag}) => (path === '' ? `* ${flag}` : `${path} ${flag}`)),
		names: commands.map(({path, command}) => ({
			path,
			choices: [
				...command.commands.map((child): Choice => [child.name(), child.description()]),
				...command.registeredArguments.slice(0, 1).flatMap(acceptedWords),
			],
		})),
		options: commands.map(({path, command}) => ({
			path,
			choices: [...(path === '' ? [] : command.options.flatMap(choicesOf)), ...common, help],
		})),
		values: valueOptions.map(({path, flag, option}) => ({path: `${path} ${flag}`, choices: acceptedWords(option)})),
	};
}

function listCommands(command: CliCommand, path: string): Array<{readonly path: string; readonly command: CliCommand}> {
	const descendants = command.commands.flatMap(child =>
		listCommands(child, path === '' ? child.name() : `${path} ${child.name()}`),
	);
	return [{path, command}, ...descendants];
}

function flagsOf({short, long}: Option): string[] {
	return [short, long].filter(flag => flag !== undefined);
}

function choicesOf(option: Option): Choice[] {
	return flagsOf(option).map(flag => [flag, option.description]);
}

/** Quotes a text as one word of a shell. */
function quoted(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Quotes a pattern for `case` in bash and zsh; the star remains a wildcard. */
function pattern(text: string): string {
	return text.startsWith('*') ? `*${quoted(text.slice(1))}` : quoted(text);
}

/** Returns the lines of a `case` for the branches that have choices. */
function cases(branches: readonly Branch[], line: (choices: readonly Choice[]) => string): string {
	return branches
		.filter(({choices}) => choices.length > 0)
		.map(({path, choices}) => `\t\t${quoted(path)}) ${line(choices)} ;;\n`)
		.join('');
}

/**
 * Returns the part of the script that bash and zsh share. `words` is the array of the command line, `first` and `last`
 * are the indexes of its second word and of the word to complete.
 */
function sharedScript(
	{paths, valueOptions, names, options, values}: Tables,
	{words, first, last}: {readonly words: string; readonly first: number; readonly last: string},
	line: (choices: readonly Choice[]) => string,
): string {
	return `	for ((i = ${first}; i < ${last}; i++)); do
		case "$at \${${words}[i]}" in
			${paths.map(pattern).join(' | ')}) at="\${at:+$at }\${${words}[i]}" ;;
			${valueOptions.map(pattern).join(' | ')}) ((i++)) ;;
		esac
	done
	if ((i > ${last})); then
		case "$at \${${words}[${last} - 1]}" in
${cases(values, line)}		esac
	elif [[ \${${words}[${last}]} == -* ]]; then
		case "$at" in
${cases(options, line)}		esac
	else
		case "$at" in
${cases(names, line)}		esac
	fi`;
}

function bash(tables: Tables): string {
	const line = (choices: readonly Choice[]) => `found=${quoted(choices.map(([word]) => word).join(' '))}`;
	return `# Completes mailctl commands in bash. To try it, run: source <(mailctl completion bash)
_mailctl() {
	local at='' found='' i
${sharedScript(tables, {words: 'COMP_WORDS', first: 1, last: 'COMP_CWORD'}, line)}
	COMPREPLY=($(compgen -W "$found" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _mailctl mailctl
`;
}

function zsh(tables: Tables): string {
	const entry = ([word, about]: Choice) => quoted(about === '' ? word : `${word}:${about}`);
	const line = (choices: readonly Choice[]) => `found=(${choices.map(entry).join(' ')})`;
	return `#compdef mailctl
# Completes mailctl commands in zsh. To try it, run after compinit: source <(mailctl completion zsh)
_mailctl() {
	local at='' i
	local -a found
${sharedScript(tables, {words: 'words', first: 2, last: 'CURRENT'}, line)}
	if ((\${#found})); then
		_describe mailctl found
	else
		_files
	fi
}
if [[ "\${funcstack[1]}" == _mailctl ]]; then
	_mailctl
else
	compdef _mailctl mailctl
fi
`;
}

function fish(tables: Tables): string {
	// In single quotes, fish knows only the escapes \\' and \\\\.
	const quote = (text: string) => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;
	const toCases = (branches: readonly Branch[]) =>
		branches
			.filter(({choices}) => choices.length > 0)
			.map(({path, choices}) => {
				const lines = choices.map(([name, about]) => quote(about === '' ? name : `${name}\t${about}`));
				return `\t\t\tcase ${quote(path)}\n\t\t\t\tset found ${lines.join(' ')}\n`;
			})
			.join('');
	return `# Completes mailctl commands in fish. To try it, run: mailctl completion fish | source
function __mailctl
	set -l at ''
	set -l option ''
	set -l found
	for word in (commandline -opc)[2..-1]
		if test -n "$option"
			set option ''
			continue
		end
		switch "$at $word"
			case ${tables.paths.map(quote).join(' ')}
				set at (string trim "$at $word")
			case ${tables.valueOptions.map(quote).join(' ')}
				set option $word
		end
	end
	set -l current (commandline -ct)
	if test -n "$option"
		switch "$at $option"
${toCases(tables.values)}		end
	else if string match -q -- '-*' "$current"
		switch "$at"
${toCases(tables.options)}		end
	else
		switch "$at"
${toCases(tables.names)}		end
	end
	if set -q found[1]
		printf '%s\\n' $found
	else
		__fish_complete_path "$current"
	end
end
complete -c mailctl -f -a '(__mailctl)'
`;
}

const exitStatuses: ReadonlyArray<readonly [code: number, meaning: string]> = [
	[0, 'success'],
	[64, 'invalid command line'],
	[65, 'invalid data: no such object or file, invalid address, broken template'],
	[69, 'unavailable: no daemon is running, or the message was not delivered (`send --wait`)'],
	[74, 'a file or the store cannot be read or written'],
	[75, 'temporary failure: try again'],
	[78, 'invalid settings or wrong schema'],
	[1, 'any other error'],
];

/** Returns the text of docs/reference/cli.md: every command with its options and an example. */
export function cliPage(program: CliCommand): string {
	const commands = program.commands.filter(command => command.name() !== 'help');
	const verbs = commands.filter(command => command.commands.length === 0);
	const nouns = commands.filter(command => command.commands.length > 0);
	return `# Command line

Commands have the form \`mailctl <noun> <verb>\`. With a single workspace, \`--workspace\` can be omitted. Output is
formatted for people; with \`--json\`, standard output is exactly one JSON document. Errors go to standard error as
\`mailctl: <what is wrong>, <how to fix it>\`. Commands that destroy data ask for confirmation on a terminal and require
\`--yes\` elsewhere, as their usage shows. Commands can run alongside the daemon, which notices changes within a second.

The manual page is \`man mailctl\` if npm installed it, else \`man docs/reference/mailctl.1\`. To set up completion:

\`\`\`sh
mailctl completion bash > /etc/bash_completion.d/mailctl
mailctl completion zsh > /usr/local/share/zsh/site-functions/_mailctl
mailctl completion fish > ~/.config/fish/completions/mailctl.fish
\`\`\`

| exit code | meaning |
|---|---|
${exitStatuses.map(([code, meaning]) => `| ${code} | ${meaning} |`).join('\n')}

Every command also accepts:

${optionList(program.options)}

${section('Without a noun', 'The daemon and the installation as a whole', verbs)}
${nouns.map(noun => section(noun.name(), noun.description(), noun.commands)).join('\n')}
This page is generated from the code: \`npm run build && node dist/src/cli/tree/write-docs.js\`.
`;
}

/** Returns the verbs of a noun as a table, followed by their options. */
function section(title: string, description: string, verbs: readonly CliCommand[]): string {
	const rows = verbs.map(verb => {
		const example = `${verb.example}`.replaceAll(/\s*\\\n\s*/g, ' ').replaceAll('\n', '; ');
		return `| \`${escapeCell(toUsage(verb))}\` | ${escapeCell(verb.description())} | \`${escapeCell(example)}\` |`;
	});
	const options = verbs
		.filter(verb => listedOptions(verb).length > 0)
		.map(verb => `\n### ${commandPath(verb)}\n\n${optionList(listedOptions(verb))}\n`);
	return `## ${title}

${description}.

| command | what it does | example |
|---|---|---|
${rows.join('\n')}
${options.join('')}`;
}

/** Returns the options of a verb except `--yes`, which the introduction of the page explains. */
function listedOptions({options}: CliCommand): readonly Option[] {
	return options.filter(({long}) => long !== '--yes');
}

/** Returns a usage such as `workspace delete <workspace> [options] [--yes]`. */
function toUsage(command: CliCommand): string {
	const {length} = listedOptions(command);
	const options = [length > 0 ? ' [options]' : '', command.options.length > length ? ' [--yes]' : ''];
	return [commandPath(command), ...command.registeredArguments.map(argumentUsage)].join(' ') + options.join('');
}

/** Returns an argument as `<id>` or `[id...]`. */
function argumentUsage(argument: Argument): string {
	const name = argument.variadic ? `${argument.name()}...` : argument.name();
	return argument.required ? `<${name}>` : `[${name}]`;
}

/** Returns a path such as `key create`. */
function commandPath(command: CliCommand): string {
	const names: string[] = [];
	for (let current: Command | null = command; current?.parent; current = current.parent) {
		names.unshift(current.name());
	}
	return names.join(' ');
}

function optionList(options: readonly Option[]): string {
	return options.map(option => `- \`${option.flags}\`: ${describeOption(option)}`).join('\n');
}

function describeOption({description, mandatory, defaultValue}: Option): string {
	const fallback = defaultValue === undefined ? '' : ` (default ${defaultValue})`;
	return description + (mandatory ? ' (required)' : fallback);
}

function escapeCell(text: string): string {
	return text.replaceAll('|', '\\|');
}

/** Returns the text of docs/reference/mailctl.1, the manual page of all commands (man(7)). */
export function manPage(program: CliCommand): string {
	const commands = program.commands.flatMap(command => [
		`.SS "${roff(command.name())}"`,
		sentence(command.description()),
		...(command.commands.length > 0 ? command.commands.flatMap(manSection) : manSection(command).slice(3)),
	]);
	return `${[
		`.\\" Generated from the code: npm run docs`,
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
		'Commands that destroy data ask for confirmation on a terminal, and require \\fB\\-\\-yes\\fR elsewhere.',
		'.SH OPTIONS',
		'Every command accepts these in addition to its own.',
		...program.options.flatMap(manOption),
		'.SH COMMANDS',
		...commands,
		'.SH "EXIT STATUS"',
		...exitStatuses.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, roff(meaning.replaceAll('`', ''))]),
		'.SH ENVIRONMENT',
		'The settings are variables named \\fBMAILCTL_*\\fR, also read from \\fI.env\\fR in the working directory.',
		'\\fBmailctl config show\\fR prints all of them and where each value comes from.',
		'.SH FILES',
		'.TP',
		'.I MAILCTL_DATA_DIR',
		'The data folder, by default \\fI./data\\fR: the store, the secrets, captured mail.',
	].join('\n')}\n`;
}

/** Returns the section of a verb: three lines with its usage and description, then its options and example. */
function manSection(command: CliCommand): string[] {
	const operands = command.registeredArguments.map(argumentUsage).join(' ');
	return [
		'.TP',
		`.B ${roff(`mailctl ${commandPath(command)}`)}${operands && ` \\fR${roff(operands)}`}`,
		sentence(command.description()),
		...(command.options.length > 0 ? ['.RS', ...command.options.flatMap(manOption), '.RE'] : []),
		'.RS',
		'.PP',
		'.EX',
		...(command.example ?? '').split('\n').map(roff),
		'.EE',
		'.RE',
	];
}

function manOption(option: Option): string[] {
	return ['.TP', `.B ${roff(option.flags)}`, roff(describeOption(option))];
}

function sentence(text: string): string {
	return roff(text.endsWith('.') ? text : `${text}.`);
}

/**
 * Escapes what roff would interpret: backslashes, and a dot or quote at the start of a line. Hyphens become `\-`, so
 * that they can be copied.
 */
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
