import {PassThrough} from 'node:stream';
import test from 'ava';
import {Progress, progressLine, Terminal} from '../../src/cli/terminal.ts';

function terminalOf(isTTY: boolean) {
	const stderr = Object.assign(new PassThrough(), {isTTY, columns: 60});
	const streams = {stdin: new PassThrough(), stdout: new PassThrough(), stderr};
	const terminal = new Terminal(streams as unknown as ConstructorParameters<typeof Terminal>[0], {});
	return {terminal, written: () => String(stderr.read() ?? '')};
}

function clockOf() {
	const clock = {at: 1000, now: () => 0, monotonic: () => clock.at};
	return clock;
}

test('a progress line shows progress, rate and remaining time', t => {
	const line = progressLine({done: 250_000, part: 0.25, unit: 'lines', elapsedMs: 5000});
	t.is(line, '[######                  ]  25 %  250,000 lines  50,000/s  15s left');
	t.is(progressLine({done: 7, part: null, unit: 'lines', elapsedMs: 3500}), '7 lines  2/s');
	t.is(progressLine({done: 0, part: 0, unit: 'lines', elapsedMs: 0}), `[${' '.repeat(24)}]   0 %  0 lines  0/s`);
	t.notRegex(progressLine({done: 1, part: 0.0001, unit: 'MB', elapsedMs: 60}), /left/);
	t.is(
		progressLine({done: 10, part: 1.5, unit: 'lines', elapsedMs: 1000}),
		`[${'#'.repeat(24)}] 100 %  10 lines  10/s  0s left`,
	);
});

test('redraws the line at most ten times a second on a terminal, clears it, and prints nothing elsewhere', t => {
	const {terminal, written} = terminalOf(true);
	const clock = clockOf();
	const progress = new Progress(terminal, clock, 'lines');
	clock.at += 1000;
	progress.show(5000, 0.5);
	t.is(written(), '\r\x1b[K[############            ]  50 %  5,000 lines  5,000/s  1s…');
	clock.at += 50;
	progress.show(5500, 0.55);
	t.is(written(), '');
	progress.end();
	t.is(written(), '\r\x1b[K');

	const off = terminalOf(false);
	const silent = new Progress(off.terminal, clock, 'lines');
	clock.at += 1000;
	silent.show(1, null);
	silent.end();
	t.is(off.written(), '');
});
