import test from 'ava';
import {Terminal} from '../../src/cli/terminal.ts';

const terminal = (isTTY: boolean, env = {}, columns = 80) =>
	new Terminal({stdin: {}, stdout: {isTTY, columns}, stderr: {}} as ConstructorParameters<typeof Terminal>[0], env);

test('prints colors only on terminals that want them', t => {
	const {tint, bold} = terminal(true);
	t.is(tint('ok', 'good'), '\u001b[32mok\u001b[39m');
	t.is(tint('unknown', 'doubtful'), '\u001b[33munknown\u001b[39m');
	t.is(tint('missing', 'bad'), '\u001b[31mmissing\u001b[39m');
	t.is(bold('x'), '\u001b[1mx\u001b[22m');
	for (const plain of [terminal(false), terminal(true, {NO_COLOR: '1'}), terminal(true, {TERM: 'dumb'})]) {
		t.is(plain.tint('ok', 'good'), 'ok');
		t.is(plain.bold('x'), 'x');
	}
});

test('makes tables as wide as the terminal, or 80 columns if its size is unknown', t => {
	t.is(terminal(true, {}, 132).width, 132);
	t.is(terminal(true, {}, 0).width, 80);
	t.is(terminal(true, {COLUMNS: '60'}, 132).width, 60);
	t.is(terminal(false).width, Number.POSITIVE_INFINITY);
});

test('prints no control sequences except for our colors', t => {
	const written: string[] = [];
	const write = (text: string) => void written.push(text);
	const streams = {stdin: {}, stdout: {isTTY: true, columns: 80, write}, stderr: {isTTY: true, columns: 80, write}};
	const {print, printJson, warn, status, tint} = new Terminal(
		streams as unknown as ConstructorParameters<typeof Terminal>[0],
		{},
	);
	const name = 'a\u001b[2Jb\u001b]0;title\u0007\u009b2J\rc\td';
	const shown = 'a\\x1b[2Jb\\x1b]0;title\\x07\\x9b2J\\x0dc\td';
	print([name, tint('ok', 'good')]);
	warn(name);
	status(name);
	printJson({name});
	const json = written.pop() ?? '';
	t.deepEqual(JSON.parse(json), {name});
	t.notRegex(json.replaceAll('\n', ''), /\p{Cc}/u);
	t.deepEqual(written, [`${shown}\n\u001b[32mok\u001b[39m\n`, `${shown}\n`, `\r\u001b[K${shown}`]);
});
