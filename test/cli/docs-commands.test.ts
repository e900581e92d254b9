import {readdirSync, readFileSync} from 'node:fs';
import test from 'ava';
import type {Command} from 'commander';
import {mailctl} from '../../src/cli/commands.ts';

/**
 * The commands of a page: lines of its shell blocks and words between backticks, without comments and anything after a
 * pipe.
 */
function commandsOf(text: string): string[] {
	const blocks = [...text.matchAll(/^[ \t]*```sh\n([\s\S]*?)^[ \t]*```/gm)].flatMap(([, block]) =>
		`${block}`.split('\n'),
	);
	const inline = [...text.replaceAll(/^[ \t]*```[\s\S]*?^[ \t]*```/gm, '').matchAll(/`([^`\n]+)`/g)].map(
		([, words]) => `${words}`,
	);
	return [...blocks, ...inline]
		.flatMap(line => line.replace(/\s#.*/, '').split(/\||&&|;|\$\(/))
		.map(part => /^\s*(?:node bin\/mailctl\.js|mailctl) ([a-z].*?)\)?\s*$/.exec(part)?.[1])
		.filter(words => words !== undefined);
}

/** The problem with a command; null: it exists and has these options. */
function faultOf(program: Command, line: string): string | null {
	let command = program;
	for (const word of line.split(/\s+/)) {
		const next = command.commands.find(one => one.name() === word);
		if (word.startsWith('--')) {
			const known = [...command.options, ...program.options].some(
				({long}) => long === word.replace(/[=\])].*/, ''),
			);
			if (!known && word !== '--help') {
				return `\`${line}\`: ${command.name()} has no ${word}`;
			}
		} else if (next) {
			command = next;
		} else if (command.commands.length > 0 && /^[a-z-]+$/.test(word)) {
			return `\`${line}\`: there is no ${word}`;
		}
	}
	return null;
}

const pages = [
	'README.md',
	...readdirSync('docs', {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.md'))
		.map(file => `docs/${file}`),
];

test('every command in the docs exists, with its options', async t => {
	const program = await mailctl();
	const commands = pages.flatMap(page => commandsOf(readFileSync(page, 'utf8')).map(line => ({page, line})));
	t.true(commands.length > 200, `${commands.length}`);
	const faults = commands.map(({page, line}) => ({page, fault: faultOf(program, line)}));
	t.deepEqual(
		faults.filter(({fault}) => fault !== null),
		[],
	);
});

test('detects a command or option that does not exist', async t => {
	const program = await mailctl();
	t.is(faultOf(program, 'queue why msg_1 --limit 3'), null);
	t.regex(`${faultOf(program, 'queue explain msg_1')}`, /there is no explain/);
	t.regex(`${faultOf(program, 'queue why --colour')}`, /why has no --colour/);
	t.deepEqual(commandsOf('x `mailctl queue flush` y\n```sh\nzcat a | mailctl suppression import - # all\n```\n'), [
		'suppression import -',
		'queue flush',
	]);
});
