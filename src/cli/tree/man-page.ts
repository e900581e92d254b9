import type {Command, Option} from 'commander';
import {exampleOf} from '../program.ts';
import {exits, meaningOf, pathOf, placeOf} from './page.ts';

/** docs/reference/mailctl.1: the manual page of all commands (man(7)). */
export function manPage(program: Command): string {
	const commands = program.commands.flatMap(each => [
		`.SS "${roff(each.name())}"`,
		sentence(each.description()),
		...(each.commands.length > 0 ? each.commands.flatMap(section) : section(each).slice(3)),
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
function section(command: Command): string[] {
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
