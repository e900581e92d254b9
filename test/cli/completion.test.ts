import {execFile, spawnSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {mailctl} from '../../src/cli/commands.ts';
import {newCli, refused} from '../helpers/cli.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';

type Complete = (lines: readonly string[]) => Promise<string[][]>;

/** Runs a shell with the completion script and one that queries it; each line of output is a list of words. */
async function answers(t: ExecutionContext, shell: 'bash' | 'zsh' | 'fish', ask: (script: string) => string) {
	const {text} = await newCli(t);
	const folder = await temporaryFolder(t);
	const script = path.join(folder, 'script');
	writeFileSync(script, await text('completion', shell));
	writeFileSync(path.join(folder, 'ask'), ask(script));
	const options = {cwd: folder, env: {HOME: folder, PATH: process.env.PATH}};
	const {stdout, stderr} = await promisify(execFile)(shell, [path.join(folder, 'ask')], options);
	t.is(stderr, '');
	return stdout
		.trimEnd()
		.split('\n')
		.map(line => line.split(' ').filter(word => word !== ''));
}

const completers: Readonly<Record<'bash' | 'zsh' | 'fish', (t: ExecutionContext) => Complete>> = {
	// Without PATH: it starts no process.
	bash: t => lines =>
		answers(t, 'bash', script => {
			const asked = lines.map(line => `ask ${line.replace(/ $/, " ''")}\n`).join('');
			return `source ${script}
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _mailctl; echo "\${COMPREPLY[*]}"; }
PATH=
${asked}`;
		}),
	// What the script hands over; matching is zsh's own, in a line editor that has no place here.
	zsh: t => lines =>
		answers(t, 'zsh', script => {
			const asked = lines.map(line => `ask ${line.replace(/ $/, " ''")}\n`).join('');
			return `compdef() { : }
_describe() { local each; for each in "\${(@P)2}"; do [[ $each == \${words[CURRENT]}* ]] && print -rn -- "\${each%%:*} "; done }
_files() { : }
source ${script}
ask() { words=("$@"); CURRENT=$#; _mailctl; print }
${asked}`;
		}),
	fish: t => lines =>
		answers(t, 'fish', script => {
			const asked = lines.map(line => `echo (complete -C '${line}' | string replace -r '\\t.*' '')\n`).join('');
			return `source ${script}\n${asked}`;
		}),
};

for (const [shell, completer] of Object.entries(completers)) {
	const isThere = spawnSync(shell, ['--version']).status === 0;
	test(`${shell} completes commands, options and their values`, async t => {
		if (!isThere) {
			notRunHere(t, `there is no ${shell}`);
			return;
		}
		const cases: ReadonlyArray<readonly [line: string, words: readonly string[]]> = [
			['mailctl ke', ['key']],
			['mailctl key ', ['create', 'list', 'revoke', 'rotate']],
			['mailctl key cr', ['create']],
			['mailctl key create --mo', ['--mode']],
			['mailctl key create --mode ', ['live', 'test']],
			['mailctl key create --mode live --sc', ['--scope']],
			['mailctl --workspace key key re', ['revoke']],
			['mailctl stats --by dest', ['destination']],
			['mailctl message list --status bo', ['bounced']],
			['mailctl completion z', ['zsh']],
			['mailctl queue list --js', ['--json']],
			['mailctl key create --name ke', []],
		];
		const found = await completer(t)(cases.map(([line]) => line));
		for (const [index, [line, words]] of cases.entries()) {
			t.deepEqual(found[index]?.toSorted() ?? [], words, line);
		}
	});
}

test('bash completes every command', async t => {
	const {commands} = await mailctl();
	const nouns = commands.filter(each => each.commands.length > 0);
	t.true(nouns.length > 10);
	const found = await completers.bash(t)(['mailctl ', ...nouns.map(noun => `mailctl ${noun.name()} `)]);
	const expected = [commands, ...nouns.map(noun => noun.commands)];
	t.deepEqual(
		found,
		expected.map(each => each.map(command => command.name())),
	);
});

test('completion --json prints the script in one document; an unknown shell is rejected', async t => {
	const cli = await newCli(t);
	t.deepEqual(await cli.json('completion', 'fish'), {shell: 'fish', script: await cli.text('completion', 'fish')});
	refused(t, await cli.run('completion', 'tcsh'), 64, /the shell "tcsh" is not allowed, use bash, zsh, fish\n$/);
});
