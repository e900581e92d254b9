import test from 'ava';
import {createTerminal} from '../../src/cli/terminal.ts';

const terminal = (isTTY: boolean, env = {}, columns = 80) =>
	createTerminal({stdin: {}, stdout: {isTTY, columns}, stderr: {}} as Parameters<typeof createTerminal>[0], env);

test('colours are for terminals that want them', t => {
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

test('tables are as wide as the terminal, 80 columns where it does not know its size', t => {
	t.is(terminal(true, {}, 132).width, 132);
	t.is(terminal(true, {}, 0).width, 80);
	t.is(terminal(true, {COLUMNS: '60'}, 132).width, 60);
	t.is(terminal(false).width, Number.POSITIVE_INFINITY);
});
